//! Where a log is written: to standard error, an event a line.

use std::io::{self, Write};

use crate::escape;

/// Standard error for a log. Each write is taken for one event. Control characters in it are escaped as [`escape`] does, and line
/// feeds before its end as `\n`: what a peer sent neither reaches a terminal nor begins a line.
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
