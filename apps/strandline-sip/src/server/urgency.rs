//! The urgency of messages in an overload. It is judged by the first line, before anything else is parsed,
//! and by some headers if messages are already waiting.

use crate::codec::{Method, header_lines, method_and_rest};

#[cfg(test)]
mod tests;

/// The urgency of a message. Messages are handled in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Urgency {
    /// Ends or continues something: responses, ACK, BYE, CANCEL and others. Dropping it would waste earlier
    /// work.
    Begun,
    /// Begins an emergency call.
    Emergency,
    /// Refreshes the registration of a phone that must stay reachable.
    Renewal,
    /// Registers a phone that was not reachable before, as far as known.
    Registration,
    /// Registers over a connection that was just opened. The phone has no other server and sends the request
    /// once, so it may wait for a long time.
    Arrival,
    /// Begins something else, which costs more.
    New,
}

impl Urgency {
    /// All urgencies, the most urgent first.
    pub(super) const ALL: [Self; 6] =
        [Self::Begun, Self::Emergency, Self::Renewal, Self::Registration, Self::Arrival, Self::New];

    /// The name in metrics.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Emergency => "emergency",
            Self::Renewal => "renewal",
            Self::Registration => "registration",
            Self::Arrival => "arrival",
            Self::New => "new",
        }
    }

    /// Judges by the start of the first line, without validation, which parsing does later. Anything that
    /// isn't a request counts as most urgent and is rejected soon.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let Some((method, rest)) = method_and_rest(bytes) else { return Self::Begun };
        match method {
            Method::Register => Self::Registration,
            Method::Ack
            | Method::Bye
            | Method::Cancel
            | Method::Prack
            | Method::Update
            | Method::Info
            | Method::Notify => Self::Begun,
            _ if is_sos(rest) => Self::Emergency,
            _ => Self::New,
        }
    }

    /// Also judges by some headers. A request within a dialog continues something, and some requests state a
    /// priority (RFC 3261 section 20.26, RFC 4412). A To tag can be forged, so the dialog counts only if the
    /// first Route contains one of this server's tokens.
    pub(super) fn looked_at(self, bytes: &[u8], is_token: impl Fn(&[u8]) -> bool) -> Self {
        if self != Self::New {
            return self;
        }
        let (mut tagged, mut routed) = (false, None);
        for (name, value) in header_lines(bytes) {
            let is = |long: &[u8]| name.eq_ignore_ascii_case(long);
            match name.len() {
                1 if matches!(name, b"t" | b"T") => tagged |= has_tag(value),
                2 if is(b"to") => tagged |= has_tag(value),
                5 if is(b"route") && routed.is_none() => {
                    routed = Some(user(value).is_some_and(&is_token));
                }
                8 if is(b"priority") && value.trim_ascii().eq_ignore_ascii_case(b"emergency") => {
                    return Self::Emergency;
                }
                17 if is(b"resource-priority") => return Self::Emergency,
                _ => {}
            }
            if tagged && routed == Some(true) {
                return Self::Begun;
            }
        }
        self
    }
}

/// Returns true for a service URN for emergencies (RFC 5031), or for `sip:sos@`, as some phones write it.
fn is_sos(rest: &[u8]) -> bool {
    let begins = |with: &[u8]| rest.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with));
    begins(b"urn:service:sos") || begins(b"sip:sos@") || begins(b"sips:sos@")
}

/// The user part of the first URI of a list, if it may be a token: without escapes and password.
fn user(value: &[u8]) -> Option<&[u8]> {
    let (before, _) = value.split_at(value.iter().position(|byte| *byte == b'@')?);
    let at = before.iter().rposition(|byte| *byte == b':')?;
    before.get(at + 1..)
}

/// Returns true if the parameters after the address include `tag`.
fn has_tag(value: &[u8]) -> bool {
    let params = value.iter().rposition(|byte| *byte == b'>').unwrap_or(0);
    let params = value.get(params..).unwrap_or(&[]);
    params.windows(5).any(|five| five.eq_ignore_ascii_case(b";tag="))
}
