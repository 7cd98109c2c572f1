//! Validators, preconditions (RFC 9110 section 13) and ranges (section 14).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::header::{
    HeaderMap, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
};

/// The validators of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Validators {
    /// The entity tag, with its quotes. It is strong: another content has another size or change time, to the
    /// nanosecond.
    pub(super) etag: String,
    /// The time of the last change, in whole seconds.
    pub(super) modified: SystemTime,
}

impl Validators {
    /// Creates the validators of a file. `variant` distinguishes its encodings.
    pub(super) fn new(modified: SystemTime, len: u64, variant: &str) -> Self {
        let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        let etag = format!("\"{:x}-{len:x}{variant}\"", since.as_nanos());
        Self { etag, modified: UNIX_EPOCH + Duration::from_secs(since.as_secs()) }
    }

    fn matches(&self, list: &str, is_weak_enough: bool) -> bool {
        list.split(',').map(str::trim).any(|tag| {
            let bare = tag.strip_prefix("W/").filter(|_| is_weak_enough).unwrap_or(tag);
            tag == "*" || bare == self.etag
        })
    }
}

/// What a request with preconditions gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The file.
    Send,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

/// Evaluates the preconditions of a GET or HEAD (RFC 9110 section 13.2.2).
pub(super) fn evaluate(headers: &HeaderMap, validators: &Validators) -> Outcome {
    if headers.contains_key(IF_MATCH) {
        if !any(headers, &IF_MATCH, |list| validators.matches(list, false)) {
            return Outcome::Failed;
        }
    } else if date(headers, &IF_UNMODIFIED_SINCE).is_some_and(|date| validators.modified > date) {
        return Outcome::Failed;
    }
    if headers.contains_key(IF_NONE_MATCH) {
        if any(headers, &IF_NONE_MATCH, |list| validators.matches(list, true)) {
            return Outcome::NotModified;
        }
    } else if date(headers, &IF_MODIFIED_SINCE).is_some_and(|date| validators.modified <= date) {
        return Outcome::NotModified;
    }
    Outcome::Send
}

fn any(headers: &HeaderMap, name: &HeaderName, test: impl Fn(&str) -> bool) -> bool {
    headers.get_all(name).iter().any(|value| value.to_str().is_ok_and(&test))
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

/// The part of a file that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// Bytes from the first to the last, both included.
    Range { first: u64, last: u64 },
    /// 416.
    Unsatisfiable,
}

/// Returns the part that a request asks for. Several ranges in one request are answered with the whole file,
/// which RFC 9110 section 14.2 permits.
pub(super) fn part(headers: &HeaderMap, validators: &Validators, len: u64) -> Part {
    let Some(range) = headers.get(RANGE).and_then(|value| value.to_str().ok()) else { return Part::Whole };
    if let Some(condition) = headers.get(IF_RANGE) {
        let is_same = condition.to_str().is_ok_and(|text| {
            text == validators.etag
                || httpdate::parse_http_date(text).is_ok_and(|date| date == validators.modified)
        });
        if !is_same {
            return Part::Whole;
        }
    }
    parse_range(range, len).unwrap_or(Part::Whole)
}

/// Parses a Range header; `None` if it isn't one that is understood.
fn parse_range(range: &str, len: u64) -> Option<Part> {
    let (unit, spec) = range.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") || spec.contains(',') {
        return None;
    }
    let (first, last) = spec.trim().split_once('-')?;
    if first.is_empty() {
        let suffix = number(last)?;
        return Some(match len.checked_sub(1) {
            Some(end) if suffix > 0 => Part::Range { first: len.saturating_sub(suffix), last: end },
            _ => Part::Unsatisfiable,
        });
    }
    let first = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if last < first {
        return None;
    }
    Some(if first < len { Part::Range { first, last: last.min(len - 1) } } else { Part::Unsatisfiable })
}

/// Parses digits alone; a number too large for 64 bits counts as the largest.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
