//! Answers to REGISTER (RFC 3261 section 10.3, step 8).

use bytes::BytesMut;

use crate::codec::{HeaderName, Reply, StatusCode, WriteError, decimal};
use crate::location::Binding;

use super::{Refusal, Request, supports};

/// 200 with all bindings and the seconds that each has left.
///
/// # Errors
/// If a text of the request can't be written again.
pub fn write_ok(
    request: &Request<'_>,
    bindings: &[Binding],
    to_tag: &[u8],
    out: &mut BytesMut,
) -> Result<(), WriteError> {
    let reply = Reply { to_tag: Some(to_tag), source: Some(request.flow.peer), ..Reply::new(StatusCode::OK) };
    let mut writer = reply.write(&request.message, out);
    let mut outbound = false;
    for binding in bindings.iter().filter(|binding| !binding.has_expired(request.unix_secs)) {
        let left = binding.expires_at - request.unix_secs;
        let mut digits = [0; 20];
        let left = decimal(left, &mut digits);
        match request.gruus().filter(|_| !binding.instance.is_empty()) {
            None => writer.header_of(
                HeaderName::Contact,
                &[b"<", &binding.contact, b">", &binding.params, b";expires=", left],
            ),
            Some(gruus) => {
                let gruus = gruus.params(request.essentials, &binding.instance, binding.gruu);
                writer.header_of(
                    HeaderName::Contact,
                    &[b"<", &binding.contact, b">", &binding.params, &gruus, b";expires=", left],
                )
            }
        };
        outbound |= binding.reg_id > 0;
    }
    if supports(&request.message, b"path") {
        for line in request.message.lines(HeaderName::Path) {
            writer.copy(&line);
        }
    }
    if !request.service_route.is_empty() {
        writer.header(HeaderName::ServiceRoute, request.service_route);
    }
    if outbound && supports(&request.message, b"outbound") {
        writer.header(HeaderName::Require, b"outbound");
        writer.number(HeaderName::FlowTimer, 120);
    }
    writer.finish(b"")
}

/// What refuses it.
///
/// # Errors
/// If a text of the request can't be written again.
pub fn write_error(
    request: &Request<'_>,
    refusal: Refusal,
    to_tag: &[u8],
    out: &mut BytesMut,
) -> Result<(), WriteError> {
    let (code, reason) = match refusal {
        Refusal::Status(code, reason) => (code, Some(reason.as_bytes())),
        Refusal::TooBrief(_) => (StatusCode::INTERVAL_TOO_BRIEF, None),
        Refusal::Unsupported(_) => (StatusCode::BAD_EXTENSION, None),
    };
    let reply = Reply { to_tag: Some(to_tag), source: Some(request.flow.peer), reason, ..Reply::new(code) };
    let mut writer = reply.write(&request.message, out);
    match refusal {
        Refusal::TooBrief(secs) => {
            writer.number(HeaderName::MinExpires, secs);
        }
        Refusal::Unsupported(option) => {
            writer.header(HeaderName::Unsupported, option.as_bytes());
        }
        Refusal::Status(StatusCode::SERVICE_UNAVAILABLE, _) => {
            writer.number(HeaderName::RetryAfter, 30);
        }
        Refusal::Status(..) => {}
    }
    writer.finish(b"")
}
