//! Fuzz target: arbitrary bytes as a letter between workers.

use super::Letter;

/// A letter that was read and written again reads the same.
pub(in crate::server) fn run(bytes: &[u8]) {
    let Some(letter) = Letter::read(bytes) else { return };
    let mut out = Vec::new();
    letter.write(&mut out);
    assert!(out.get(4..).and_then(Letter::read).is_some_and(|again| again == letter));
}
