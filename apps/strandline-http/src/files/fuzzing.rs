//! Any path and any headers of a request for a file.

use std::time::Duration;

use hyper::header::{
    ACCEPT_ENCODING, HeaderMap, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
    RANGE,
};

use super::conditions::{Outcome, Part, Times, Validators, evaluate, part};
use super::encodings::accepted;
use super::path::{Target, encode};

/// Lengths of the files.
const LENGTHS: [u64; 5] = [0, 1, 100, 5_000_000_000, u64::MAX];
/// When the files were changed. The seeds name this time.
const CHANGED: Duration = Duration::new(1_700_000_000, 5);
/// Ages of the files: with weak validators, and with strong ones.
const AGES: [Duration; 2] = [Duration::from_millis(999), Duration::from_secs(1)];

/// A path never leaves the root, a part never leaves the file, and a header that is absent changes nothing.
pub(crate) fn run(path: &str, headers: &HeaderMap) {
    if let Some(target) = Target::parse(path) {
        check_target(&target);
    }
    let codings = accepted(headers);
    assert!(codings.iter().enumerate().all(|(at, one)| !codings[..at].contains(one)), "each coding once");
    assert!(headers.contains_key(ACCEPT_ENCODING) || codings == [None], "the plain file");
    for age in AGES {
        let times = Times { modified: CHANGED, changed: CHANGED, now: CHANGED + age };
        for len in LENGTHS {
            let validators = Validators::new(times, len, "");
            check_outcome(headers, &validators);
            check_part(headers, &validators, len);
        }
    }
}

fn check_target(target: &Target) {
    let names: Vec<&str> = target.path.split('/').filter(|name| !name.is_empty()).collect();
    assert_eq!(names.join("/"), target.path, "no name is empty");
    for name in &names {
        assert!(!name.contains('\0') && (!name.starts_with('.') || *name == ".well-known"), "{name:?}");
    }
    assert!(target.is_directory || !names.is_empty(), "the root is a directory");
    let mut link: String = names.iter().flat_map(|name| ["/".to_owned(), encode(name)]).collect();
    if target.is_directory {
        link.push('/');
    }
    assert_eq!(Target::parse(&link).as_ref(), Some(target), "a link leads there: {link}");
}

fn check_outcome(headers: &HeaderMap, validators: &Validators) {
    let has = |names: [_; 2]| names.iter().any(|name| headers.contains_key(name));
    match evaluate(headers, validators) {
        Outcome::Send => {}
        Outcome::NotModified => assert!(has([IF_NONE_MATCH, IF_MODIFIED_SINCE])),
        Outcome::Failed => assert!(has([IF_MATCH, IF_UNMODIFIED_SINCE])),
    }
}

fn check_part(headers: &HeaderMap, validators: &Validators, len: u64) {
    let found = part(headers, validators, len);
    assert!(headers.contains_key(RANGE) || found == Part::Whole);
    let is_weak = validators.etag.starts_with("W/");
    assert!(!is_weak || !headers.contains_key(IF_RANGE) || found == Part::Whole, "parts need strong ones");
    let mut ranges = match found {
        Part::Whole | Part::Unsatisfiable => return,
        Part::Range(range) => vec![range],
        Part::Ranges(ranges) => {
            assert!((2..=64).contains(&ranges.len()), "{} ranges", ranges.len());
            ranges
        }
    };
    ranges.sort_by_key(|range| range.first);
    assert!(ranges.iter().all(|range| range.first <= range.last && range.last < len), "{ranges:?}");
    for (one, next) in ranges.iter().zip(ranges.iter().skip(1)) {
        assert!(one.last + 1 < next.first, "they don't touch: {ranges:?}");
    }
    assert!(ranges.iter().map(|range| range.len()).sum::<u64>() <= len);
}
