//! What programs print. `println!` panics when standard output is full or nobody reads it any more, and `eprintln!` does
//! with standard error: these don't, and a lint keeps the programs to them.
//!
//! Standard output carries results. One that can't be written ends the program: with [`FAILED`] and a word on standard
//! error, or, if its reader has gone (`strandline lab list | head -1`), as quietly as SIGPIPE ends one, with
//! [`NOBODY_READS`]. Standard error carries what is said beside them: the program goes on without it, unless its reader
//! has gone, too.
//!
//! Control characters in either are escaped ([`escape`]): much of what programs print came from a peer or a file. [`read_file`] and
//! [`read_text`] read a file up to a limit. [`LogWriter`] is for a log.
#![forbid(unsafe_code)]

mod escape;
mod input;
mod log;

use std::fmt;
use std::io::{self, ErrorKind, Write};

pub use escape::escape;
pub use input::{read_file, read_text};
pub use log::LogWriter;

/// The exit code when standard output can't be written.
pub const FAILED: u8 = 1;
/// The exit code when nobody reads any more: 128 and the number of SIGPIPE.
pub const NOBODY_READS: u8 = 141;

/// Prints to standard output, as `print!` does.
#[macro_export]
macro_rules! out {
    ($($text:tt)*) => { $crate::write_out(::core::format_args!($($text)*)) };
}

/// Prints a line to standard output, as `println!` does.
#[macro_export]
macro_rules! outln {
    ($($text:tt)*) => { $crate::write_out(::core::format_args!("{}\n", ::core::format_args!($($text)*))) };
}

/// Prints to standard error, as `eprint!` does.
#[macro_export]
macro_rules! err {
    ($($text:tt)*) => { $crate::write_err(::core::format_args!($($text)*)) };
}

/// Prints a line to standard error, as `eprintln!` does.
#[macro_export]
macro_rules! errln {
    ($($text:tt)*) => { $crate::write_err(::core::format_args!("{}\n", ::core::format_args!($($text)*))) };
}

/// What [`out!`] and [`outln!`] do.
pub fn write_out(text: fmt::Arguments<'_>) {
    if let Err(error) = write(&mut io::stdout(), text) {
        end(&error);
    }
}

/// What [`err!`] and [`errln!`] do.
pub fn write_err(text: fmt::Arguments<'_>) {
    match write(&mut io::stderr(), text) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => end(&error),
        _ => {}
    }
}

/// The program ends because its standard output can't be written.
pub fn end(error: &io::Error) -> ! {
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(NOBODY_READS.into());
    }
    // Where that can't be written either, the exit code alone says it.
    let _ = write(&mut io::stderr(), format_args!("strandline: writing to standard output: {error}\n"));
    std::process::exit(FAILED.into());
}

/// Without the control characters that a peer or a file may have put there. In one piece, so that lines of several threads don't mix, and at once.
fn write(to: &mut dyn Write, text: fmt::Arguments<'_>) -> io::Result<()> {
    to.write_all(escape(&text.to_string()).as_bytes())?;
    to.flush()
}

#[cfg(test)]
mod tests;
