//! Reads whole files up to a limit, so that an endless device such as /dev/zero is an error.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Reads a file of at most `max` bytes.
///
/// # Errors
/// If the file can't be read or is longer; the error says which.
pub fn read_file(path: impl AsRef<Path>, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        let (size, unit) = if max < 1 << 20 { (max >> 10, "KiB") } else { (max >> 20, "MiB") };
        let what = format!("the file has more than {size} {unit}: is it the right one?");
        return Err(io::Error::new(ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

/// Reads a file of at most `max` bytes of UTF-8.
///
/// # Errors
/// If the file can't be read, is longer, or isn't UTF-8.
pub fn read_text(path: impl AsRef<Path>, max: u64) -> io::Result<String> {
    String::from_utf8(read_file(path, max)?)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "the file is not valid UTF-8"))
}

#[cfg(test)]
mod tests;
