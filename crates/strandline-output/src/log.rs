//! Where a log is written: to standard error, an event a line.

use std::io::{self, Write};
use std::sync::OnceLock;

use crate::escape;

static LOG_ARGUMENTS: OnceLock<Vec<String>> = OnceLock::new();

/// Sets the arguments by which this program logs as it does, such as `-v`. Only the first call has an effect.
pub fn set_log_arguments(arguments: Vec<String>) {
    let _ = LOG_ARGUMENTS.set(arguments);
}

/// Returns the arguments for a process of this program that should log as this one does. They come before its
/// command.
#[must_use]
pub fn log_arguments() -> &'static [String] {
    LOG_ARGUMENTS.get().map_or(&[], Vec::as_slice)
}

/// Standard error for a log. Each write is taken for one event. Control characters in it are escaped as
/// [`escape`] does, and line feeds before its end as `\n`: what a peer sent neither reaches a terminal nor
/// begins a line.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(one_line(event).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// An event as it is written.
fn one_line(event: &[u8]) -> String {
    let text = String::from_utf8_lossy(event);
    let (line, end) = text.strip_suffix('\n').map_or((&*text, ""), |line| (line, "\n"));
    escape(line).replace('\n', "\\n") + end
}

#[cfg(test)]
mod tests;
