//! Printing for command-line programs. `println!` panics when standard output is full or its reader is gone,
//! and `eprintln!` does with standard error. The macros of this crate don't, and a lint makes the programs
//! use them.
//!
//! Standard output carries results. If it can't be written, the program ends with exit code [`FAILED`] and a
//! message on standard error. If its reader is gone (`strandline lab list | head -1`), the program ends with
//! [`NOBODY_READS`] and without a message, as SIGPIPE would end it. Standard error carries messages: the
//! program continues if it can't be written, unless its reader is gone.
//!
//! Control characters in either are escaped ([`escape`]): much of what programs print came from a peer or a
//! file. What a program itself tells a terminal has functions of its own, such as [`clear_screen`].
//! [`read_file`] and [`read_text`] read a file up to a limit. [`LogWriter`] is for a log, and
//! [`log_arguments`] for the log of child processes.
#![forbid(unsafe_code)]

mod escape;
mod input;
mod log;

use std::fmt;
use std::io::{self, ErrorKind, Write};

pub use escape::escape;
pub use input::{read_file, read_text};
pub use log::{LogWriter, log_arguments, set_log_arguments};

/// Exit code when standard output can't be written.
pub const FAILED: u8 = 1;
/// Exit code when the reader of the output is gone: 128 plus the number of SIGPIPE.
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

/// Implements [`out!`] and [`outln!`].
pub fn write_out(text: fmt::Arguments<'_>) {
    if let Err(error) = write(&mut io::stdout(), text) {
        end(&error);
    }
}

/// Implements [`err!`] and [`errln!`].
pub fn write_err(text: fmt::Arguments<'_>) {
    match write(&mut io::stderr(), text) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => end(&error),
        _ => {}
    }
}

/// Moves the cursor of the terminal on standard output to the top left, and clears the screen. Takes effect with what
/// is printed next, so that the terminal shows no empty screen before it.
///
/// Ends the program as [`out!`] does if standard output can't be written.
pub fn clear_screen() {
    if let Err(error) = clear(&mut io::stdout()) {
        end(&error);
    }
}

/// Ends the program because its standard output can't be written.
pub fn end(error: &io::Error) -> ! {
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(NOBODY_READS.into());
    }
    // If standard error can't be written either, the exit code alone reports the failure.
    let _ = write(&mut io::stderr(), format_args!("strandline: writing to standard output: {error}\n"));
    std::process::exit(FAILED.into());
}

/// Writes the text with control characters escaped. Writes it in one piece, so that lines of several threads
/// don't mix, and flushes it.
fn write(to: &mut dyn Write, text: fmt::Arguments<'_>) -> io::Result<()> {
    to.write_all(escape(&text.to_string()).as_bytes())?;
    to.flush()
}

/// Writes what clears a terminal (ECMA-48: CUP, ED). As a text it would be escaped.
fn clear(to: &mut dyn Write) -> io::Result<()> {
    to.write_all(b"\x1b[H\x1b[J")
}

#[cfg(test)]
mod tests;
