//! Any text as a schedule of an emulated network.

use super::schedule::parse;

/// What was read stands in the order of time, and each entry reads as it was written.
pub(crate) fn schedule(text: &str) {
    let Ok(entries) = parse(text) else { return };
    assert!(entries.len() <= text.len());
    assert!(entries.is_sorted_by_key(|entry| entry.at));
    for entry in entries {
        assert_eq!(parse(&entry.text), Ok(vec![entry]));
    }
}
