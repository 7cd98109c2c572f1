//! Log lines about messages and connections that are refused before they are examined.

use std::net::IpAddr;
use std::time::Duration;

use crate::service::RefusedLog;
use crate::transaction::Time;

/// Maximum number of lines in a second for each reason. Floods have these reasons, so that a line is an example.
const LINES_PER_SEC: u32 = 1;

/// Why something is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// `[access]` denies it.
    Access,
    /// No room for waiting messages.
    NoRoom,
    /// The source has exceeded its rate.
    TooMany,
    /// It waited too long, or would have.
    Overload,
}

impl Reason {
    const fn text(self) -> &'static str {
        match self {
            Self::Access => "no access",
            Self::NoRoom => "no room",
            Self::TooMany => "too many messages",
            Self::Overload => "overload",
        }
    }
}

/// Logs what is refused, with a limit for each reason.
#[derive(Debug)]
pub(super) struct UnhandledLog([RefusedLog; 4]);

impl Default for UnhandledLog {
    fn default() -> Self {
        Self([const { RefusedLog::new(LINES_PER_SEC) }; 4])
    }
}

impl UnhandledLog {
    /// Logs that something of this source was refused. No user is named, because nothing is parsed.
    pub(super) fn log(&mut self, now: Duration, source: IpAddr, reason: Reason) {
        if let Some(log) = self.0.get_mut(reason as usize) {
            log.log(Time::ZERO + now, source, b"", reason.text());
        }
    }
}
