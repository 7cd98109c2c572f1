//! What comes first when there is more than can be done: told by the first line, before anything else is parsed.

use crate::codec::{Method, StartLine};

#[cfg(test)]
mod tests;

/// How much depends on a message. The order is that in which messages are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// It ends or goes on with something: responses, ACK, BYE, CANCEL and their like. To drop it wastes what was done before.
    Begun,
    /// A phone that must stay reachable.
    Register,
    /// It begins something that costs more.
    New,
}

impl Urgency {
    /// All, the most urgent first.
    pub(super) const ALL: [Self; 3] = [Self::Begun, Self::Register, Self::New];

    /// By the first line. What has none is rejected soon enough.
    pub(super) fn of(bytes: &[u8]) -> Self {
        match StartLine::parse(bytes) {
            Ok(StartLine::Request(line)) => match line.method {
                Method::Register => Self::Register,
                Method::Ack
                | Method::Bye
                | Method::Cancel
                | Method::Prack
                | Method::Update
                | Method::Info
                | Method::Notify => Self::Begun,
                _ => Self::New,
            },
            Ok(StartLine::Status(_)) | Err(_) => Self::Begun,
        }
    }
}
