//! `[registrar]`: registrations.

use serde::Deserialize;

use crate::codec::Uri;
use crate::registrar::RegistrarSettings;

use super::error::{ConfigErrors, wrong};

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    expires_default_secs: Option<u32>,
    expires_min_secs: Option<u32>,
    expires_max_secs: Option<u32>,
    contacts_max: Option<usize>,
    replace_oldest: Option<bool>,
    outbound: Option<bool>,
    gruu: Option<bool>,
    service_route: Vec<String>,
}

/// A registrar must not reject this lifetime or a longer one as too brief, in seconds (RFC 3261 section
/// 10.3).
const REFUSED_SECS_MAX: u32 = 3600;

pub(super) fn check(file: &Table, errors: &mut ConfigErrors) -> RegistrarSettings {
    let defaults = RegistrarSettings::default();
    let settings = RegistrarSettings {
        expires_default_secs: file.expires_default_secs.unwrap_or(defaults.expires_default_secs),
        expires_min_secs: file.expires_min_secs.unwrap_or(defaults.expires_min_secs),
        expires_max_secs: file.expires_max_secs.unwrap_or(defaults.expires_max_secs),
        contacts_max: file.contacts_max.unwrap_or(defaults.contacts_max),
        replace_oldest: file.replace_oldest.unwrap_or(defaults.replace_oldest),
        outbound: file.outbound.unwrap_or(defaults.outbound),
        gruu: file.gruu.unwrap_or(defaults.gruu),
        ..defaults
    };
    let mut add = |key: &str, message: &str| errors.add(wrong(format!("registrar.{key}"), message));
    let is_min = settings.expires_min_secs <= REFUSED_SECS_MAX;
    let is_max = settings.expires_max_secs >= settings.expires_min_secs;
    if !is_min {
        add(
            "expires_min_secs",
            "must be at most 3600: RFC 3261 section 10.3 forbids rejecting longer expirations",
        );
    } else if !is_max {
        add("expires_max_secs", "must be at least expires_min_secs");
    }
    let range = settings.expires_min_secs..=settings.expires_max_secs;
    if is_min && is_max && !range.contains(&settings.expires_default_secs) {
        add("expires_default_secs", "must be between expires_min_secs and expires_max_secs");
    }
    if settings.contacts_max == 0 {
        add("contacts_max", "must be at least 1");
    }
    settings
}

/// The value of Service-Route (RFC 3608): URIs in brackets, in the order in which requests traverse them.
pub(super) fn service_route(file: &Table, errors: &mut ConfigErrors) -> Vec<u8> {
    let routes = file.service_route.iter().map(|text| {
        let bare = text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).unwrap_or(text);
        match Uri::parse(bare.as_bytes()) {
            Ok(Uri::Sip(uri)) if !uri.headers.is_empty() => {
                Err(format!("{text:?} has headers, which are not allowed in a route"))
            }
            Ok(Uri::Sip(uri)) if !uri.is_loose_router() => {
                Err(format!("{text:?} lacks the parameter ;lr (loose routing)"))
            }
            Ok(Uri::Sip(_)) => Ok(format!("<{bare}>")),
            _ => Err(format!("expected a SIP URI such as sip:192.0.2.1;lr, not {text:?}")),
        }
    });
    errors.take_all("registrar.service_route", routes).join(", ").into_bytes()
}
