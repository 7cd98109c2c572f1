//! What comes first when there is more than can be done: told by the first line, before anything else is parsed; and where
//! messages wait already, by a look at some of the headers.

use crate::codec::{Method, header_lines, method_and_rest};

#[cfg(test)]
mod tests;

/// How much depends on a message. The order is that in which messages are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Urgency {
    /// It ends or goes on with something: responses, ACK, BYE, CANCEL and their like. To drop it wastes what was done before.
    Begun,
    /// It begins a call that must get through.
    Emergency,
    /// A phone that must stay reachable.
    Renewal,
    /// A phone that wasn't reachable before, as far as is known.
    Registration,
    /// A registration on a connection that was just opened. It has nowhere else to go, and asks once: it may wait for long.
    Arrival,
    /// It begins something that costs more.
    New,
}

impl Urgency {
    /// All, the most urgent first.
    pub(super) const ALL: [Self; 6] =
        [Self::Begun, Self::Emergency, Self::Renewal, Self::Registration, Self::Arrival, Self::New];

    /// Its name in metrics.
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

    /// By the start of the first line, of which nothing is checked: that is done when the message is parsed. What is no request comes
    /// first, and is rejected soon enough.
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

    /// By some of the headers as well: a request within a dialog has begun already, and some say that they matter more
    /// (RFC 3261 section 20.26, RFC 4412). A To tag can be made up: the dialog is one that began here if the first Route holds
    /// one of our tokens.
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

/// Does it begin with a service URN for emergencies (RFC 5031), or `sip:sos@`, as some phones write it?
fn is_sos(rest: &[u8]) -> bool {
    let begins = |with: &[u8]| rest.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with));
    begins(b"urn:service:sos") || begins(b"sip:sos@") || begins(b"sips:sos@")
}

/// The user part of the first URI of a list, if it looks like one of a token: without escapes and passwords.
fn user(value: &[u8]) -> Option<&[u8]> {
    let (before, _) = value.split_at(value.iter().position(|byte| *byte == b'@')?);
    let at = before.iter().rposition(|byte| *byte == b':')?;
    before.get(at + 1..)
}

/// Is there a `tag` among the parameters after the address?
fn has_tag(value: &[u8]) -> bool {
    let params = value.iter().rposition(|byte| *byte == b'>').unwrap_or(0);
    let params = value.get(params..).unwrap_or(&[]);
    params.windows(5).any(|five| five.eq_ignore_ascii_case(b";tag="))
}
