//! Log lines about refused requests, for operators and for programs such as fail2ban.
//!
//! Their rate is limited so that they can't fill a disk. Text of a sender is escaped and truncated.

use core::fmt;
use core::net::IpAddr;

use crate::transaction::Time;

/// Maximum number of lines in a second about requests that were examined.
const LINES_PER_SEC: u32 = 20;
/// Maximum number of bytes of a user's name that are logged.
const USER_MAX: usize = 64;

/// Logs refused requests, with a limit for the lines in a second.
#[derive(Debug)]
pub(crate) struct RefusedLog {
    lines_per_sec: u32,
    second: u64,
    lines: u32,
    /// Lines that were left out since the last one.
    left_out: u64,
}

impl Default for RefusedLog {
    fn default() -> Self {
        Self::new(LINES_PER_SEC)
    }
}

impl RefusedLog {
    /// Creates a log with a maximum number of lines in a second.
    pub(crate) const fn new(lines_per_sec: u32) -> Self {
        Self { lines_per_sec, second: 0, lines: 0, left_out: 0 }
    }

    /// Logs that a request was refused.
    pub(crate) fn log(&mut self, now: Time, source: IpAddr, user: &[u8], reason: &str) {
        let Some(left_out) = self.allows(now) else { return };
        let (source, user) = (source.to_canonical(), Escaped(user));
        tracing::info!(target: "strandline_sip::refused", %source, %user, reason, left_out, "refused");
    }

    /// Counts a line. Returns the number of lines that were left out before it; `None` if there are too many
    /// in this second.
    fn allows(&mut self, now: Time) -> Option<u64> {
        let second = now.as_millis() / 1000;
        if second != self.second {
            (self.second, self.lines) = (second, 0);
        }
        if self.lines >= self.lines_per_sec {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(core::mem::take(&mut self.left_out))
    }
}

/// A text of a sender, without what could end a field or a line.
struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.iter().take(USER_MAX) {
            match byte {
                b' ' | b'"' | b'\\' | b'=' => write!(f, "\\x{byte:02x}")?,
                byte => write!(f, "{}", byte.escape_ascii())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
