//! Helpers for the torture tests.
#![allow(dead_code, reason = "each user of this module needs a part of it")]

use strandline_sip::codec::{Error, ErrorKind, Essentials, HeaderName, Index, Message};

/// Parses a message that must be accepted, and passes it to `check` with its mandatory headers.
pub fn accepted(bytes: &[u8], check: impl FnOnce(Message<'_>, Essentials<'_>)) {
    let mut index = Index::new();
    let message = Message::parse(bytes, &mut index).unwrap_or_else(|rejected| panic!("{}", rejected.error));
    let essentials = message.essentials().unwrap_or_else(|error| panic!("{error}"));
    check(message, essentials);
}

/// The error found in a message, by parsing or in the mandatory headers, and whether it can be answered.
pub fn rejected(bytes: &[u8]) -> (Error, bool) {
    let mut index = Index::new();
    match Message::parse(bytes, &mut index) {
        Err(rejected) => (rejected.error, rejected.answerable().is_some()),
        Ok(message) => (message.essentials().expect_err("an error"), message.is_answerable()),
    }
}

/// Checks that the message is a request that is answered with this code, for this error.
#[track_caller]
pub fn answered(bytes: &[u8], code: u16, kind: ErrorKind, header: Option<HeaderName>) {
    let (error, answerable) = rejected(bytes);
    assert_eq!((error.status().code(), error.kind, error.header), (code, kind, header), "{error}");
    assert!(answerable);
}

/// Checks that every message in a folder has a test, by searching for its name in quotes.
pub fn every_message_is_named(folder: &str, source: &str, count: usize) {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torture").join(folder);
    let names: Vec<String> = std::fs::read_dir(here)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names.len(), count);
    for name in names {
        assert!(source.contains(&format!("{folder}!(\"{name}\")")), "{folder}/{name}");
    }
}
