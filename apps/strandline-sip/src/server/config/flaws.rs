//! Warnings about a configuration with which the server can run, such as a certificate that peers will
//! reject.

use core::net::IpAddr;

use strandline_ops::Flaw;
use strandline_ops::http::exposure;
use strandline_tls::{domains, is_domain, proves_address, validity};

use crate::server::clock::Clock;

use super::Config;

const DAY_SECS: u64 = 86_400;
/// A certificate that expires within this number of days should be replaced now.
const SOON_DAYS: u64 = 14;
/// Maximum number of names in a warning.
const NAMES_TOLD: usize = 5;

impl Config {
    /// The current warnings.
    #[must_use]
    pub fn flaws(&self, unix_secs: u64) -> Vec<Flaw> {
        let time = self.tls.as_ref().and_then(|tls| of_time(validity(&tls.own)?, unix_secs));
        time.into_iter().chain(self.of_names()).chain(self.of_addresses()).chain(self.of_exposure()).collect()
    }

    /// Warns about metrics and administration pages that are reachable from other machines, without TLS.
    fn of_exposure(&self) -> impl Iterator<Item = Flaw> {
        let pages = [
            ("metrics.address", self.metrics),
            ("admin.address", self.admin.as_ref().map(|admin| admin.address)),
        ];
        pages.into_iter().filter_map(|(key, address)| {
            let message = exposure(address?)?;
            Some(Flaw { key: key.into(), message, is_error: false })
        })
    }

    /// Logs the current warnings.
    pub(in crate::server) fn warn(&self) {
        for flaw in self.flaws(Clock::unix().as_secs()) {
            tracing::warn!("{flaw}");
        }
    }

    /// A TLS listener should advertise a name: certificates are issued for names, and few phones accept
    /// addresses in them.
    fn of_addresses(&self) -> Vec<Flaw> {
        let secure = self.listen.iter().filter(|listen| listen.protocol.is_secure());
        let told = secure.filter(|listen| listen.host().parse::<IpAddr>().is_ok());
        told.map(|listen| Flaw {
            key: "listen.advertise".into(),
            message: format!(
                "{} on {} is advertised as {}: advertise a name, such as sip.example.com, so that peers can verify the certificate",
                listen.protocol.name(),
                listen.address,
                listen.host()
            ),
            is_error: false,
        })
        .collect()
    }

    /// Peers require a certificate for the domain of the URI that led them here (RFC 5922 sections 7.1 and
    /// 7.3): one of `domains`, or the host in Record-Route.
    fn of_names(&self) -> Option<Flaw> {
        let own = &self.tls.as_ref()?.own;
        let secure: Vec<String> =
            self.listen.iter().filter(|listen| listen.protocol.is_secure()).map(|one| one.host()).collect();
        if secure.is_empty() {
            return None;
        }
        let proved = domains(own);
        let is_proved = |name: &str| match name.parse::<IpAddr>() {
            Ok(address) => proves_address(own, address),
            Err(_) => proved.iter().any(|proved| is_domain(proved, name)),
        };
        let mut missing: Vec<&str> = Vec::new();
        for name in secure.iter().chain(&self.settings.domains) {
            if !is_proved(name) && !missing.contains(&name.as_str()) {
                missing.push(name);
            }
        }
        if missing.is_empty() {
            return None;
        }
        let more = missing.len().saturating_sub(NAMES_TOLD);
        let told: Vec<&str> = missing.into_iter().take(NAMES_TOLD).collect();
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let wildcard =
            if proved.iter().any(|name| name.contains('*')) { "; wildcards do not count" } else { "" };
        let message = format!(
            "the certificate is not valid for {}{more}: TLS peers that expect these names may reject it (RFC 5922 section 7.1{wildcard})",
            told.join(", ")
        );
        Some(Flaw { key: "tls.certificate".into(), message, is_error: false })
    }
}

fn of_time((not_before, not_after): (u64, u64), unix_secs: u64) -> Option<Flaw> {
    let days = |from: u64, to: u64| match to.saturating_sub(from) / DAY_SECS {
        0 => "less than a day".to_owned(),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    };
    let flaw = |message, is_error| Some(Flaw { key: "tls.certificate".into(), message, is_error });
    if unix_secs > not_after {
        let ago = days(not_after, unix_secs);
        return flaw(format!("the certificate expired {ago} ago: peers reject it"), true);
    }
    if unix_secs < not_before {
        let left = days(unix_secs, not_before);
        return flaw(
            format!(
                "the certificate becomes valid in {left}, and peers reject it until then: is the clock right?"
            ),
            true,
        );
    }
    if not_after - unix_secs < SOON_DAYS * DAY_SECS {
        let left = days(unix_secs, not_after);
        return flaw(
            format!("the certificate expires in {left}: replace it and reload the configuration"),
            false,
        );
    }
    None
}

#[cfg(test)]
mod tests;
