//! Validators, preconditions (RFC 9110 section 13) and ranges (section 14).

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::header::{
    HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE, RANGE,
};

/// The validators of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Validators {
    /// The entity tag, with its quotes. Another content has another size or time of the inode's last change (ctime),
    /// which unlike the time of modification (mtime) can't be set. It is weak while another change could bear the
    /// same time.
    pub(super) etag: String,
    /// The time of the last modification, in whole seconds.
    pub(super) modified: SystemTime,
    /// Whether the file can't change again in the same second.
    is_settled: bool,
}

/// Times of a file, since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    /// Of the last modification.
    pub(super) modified: Duration,
    /// Of the inode's last change.
    pub(super) changed: Duration,
    /// The present.
    pub(super) now: Duration,
}

impl Times {
    /// Returns the times of a file. Those before the epoch count as the epoch.
    pub(super) fn of(metadata: &Metadata) -> Self {
        let time = |seconds: i64, nanoseconds: i64| {
            Duration::from_secs(seconds.try_into().unwrap_or(0))
                + Duration::from_nanos(nanoseconds.try_into().unwrap_or(0))
        };
        #[allow(clippy::disallowed_methods, reason = "compared with times of files")]
        let now = SystemTime::now();
        Self {
            modified: time(metadata.mtime(), metadata.mtime_nsec()),
            changed: time(metadata.ctime(), metadata.ctime_nsec()),
            now: now.duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }
}

/// Time within which two changes of a file may bear the same time, which has the resolution of a tick of the kernel.
/// The whole second makes dates that are used as validators strong, too (RFC 9110 section 8.8.2.2).
const SETTLING: Duration = Duration::from_secs(1);

impl Validators {
    /// Creates the validators of a file. `variant` distinguishes its encodings.
    pub(super) fn new(times: Times, len: u64, variant: &str) -> Self {
        let settled = |time: Duration| times.now >= time.saturating_add(SETTLING);
        let is_settled = settled(times.changed) && settled(times.modified);
        let weak = if is_settled { "" } else { "W/" };
        let etag = format!("{weak}\"{:x}-{len:x}{variant}\"", times.changed.as_nanos());
        Self { etag, modified: UNIX_EPOCH + Duration::from_secs(times.modified.as_secs()), is_settled }
    }

    /// Compares with the entity tags of a list, by the weak or by the strong comparison (RFC 9110 section 8.8.3.2). A
    /// list that is malformed has no entity tag.
    fn matches(&self, headers: &HeaderMap, name: &HeaderName, is_weak_enough: bool) -> bool {
        let lines: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
        let list = lines.join(&b", "[..]);
        if list.trim_ascii() == b"*" {
            return true;
        }
        let own = self.etag.as_bytes();
        entity_tags(&list).is_some_and(|tags| {
            tags.iter()
                .any(|tag| (is_weak_enough && opaque(tag) == opaque(own)) || (self.is_settled && *tag == own))
        })
    }
}

/// Parses a list of entity tags (RFC 9110 section 8.8.3), which may hold commas; `None` if it is malformed.
fn entity_tags(list: &[u8]) -> Option<Vec<&[u8]>> {
    let mut tags = Vec::new();
    let mut rest = list.trim_ascii();
    while !rest.is_empty() {
        // Empty elements are ignored (section 5.6.1).
        if let Some(next) = rest.strip_prefix(b",") {
            rest = next.trim_ascii_start();
            continue;
        }
        let quoted = opaque(rest).strip_prefix(b"\"")?;
        let len = quoted.iter().position(|byte| *byte == b'"')?;
        if !quoted.get(..len)?.iter().all(|byte| matches!(byte, 0x21 | 0x23..=0x7e | 0x80..)) {
            return None;
        }
        let (tag, next) = rest.split_at(rest.len() - quoted.len() + len + 1);
        tags.push(tag);
        rest = next.trim_ascii_start();
        if !rest.is_empty() && !rest.starts_with(b",") {
            return None;
        }
    }
    Some(tags)
}

/// Returns an entity tag without what makes it weak.
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
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
        if !validators.matches(headers, &IF_MATCH, false) {
            return Outcome::Failed;
        }
    } else if date(headers, &IF_UNMODIFIED_SINCE).is_some_and(|date| validators.modified > date) {
        return Outcome::Failed;
    }
    if headers.contains_key(IF_NONE_MATCH) {
        if validators.matches(headers, &IF_NONE_MATCH, true) {
            return Outcome::NotModified;
        }
    } else if date(headers, &IF_MODIFIED_SINCE).is_some_and(|date| validators.modified <= date) {
        return Outcome::NotModified;
    }
    Outcome::Send
}

/// Returns the value of a header that has no list; `None` if there are several.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then_some(value)?.to_str().ok()
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(single(headers, name)?).ok()
}

/// Most ranges in a request that are looked at. A request with more gets the whole file.
const RANGES_MAX: usize = 64;

/// Bytes of a file from the first to the last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Range {
    /// Returns the number of bytes.
    pub(super) const fn len(self) -> u64 {
        self.last - self.first + 1
    }

    /// Returns whether two ranges overlap or follow one another.
    const fn touches(self, other: Self) -> bool {
        self.first <= other.last.saturating_add(1) && other.first <= self.last.saturating_add(1)
    }

    fn join(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

/// The part of a file that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// One range.
    Range(Range),
    /// Several ranges that don't touch, in the order of the request.
    Ranges(Vec<Range>),
    /// 416.
    Unsatisfiable,
}

/// Returns the part that a GET asks for.
pub(super) fn part(headers: &HeaderMap, validators: &Validators, len: u64) -> Part {
    let Some(range) = single(headers, &RANGE) else { return Part::Whole };
    if headers.contains_key(IF_RANGE) {
        let is_same = single(headers, &IF_RANGE).is_some_and(|text| {
            // Only strong validators join parts.
            let is_date = || httpdate::parse_http_date(text).is_ok_and(|date| date == validators.modified);
            validators.is_settled && (text == validators.etag || is_date())
        });
        if !is_same {
            return Part::Whole;
        }
    }
    parse_ranges(range, len).unwrap_or(Part::Whole)
}

/// Parses a Range header; `None` if it isn't one that is understood.
fn parse_ranges(header: &str, len: u64) -> Option<Part> {
    let (unit, specs) = header.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let mut ranges: Vec<Range> = Vec::new();
    let mut has_spec = false;
    for (number, spec) in specs.split(',').map(str::trim).enumerate() {
        if number == RANGES_MAX {
            return None;
        }
        // RFC 9110 section 5.6.1: empty elements of a list are ignored.
        if spec.is_empty() {
            continue;
        }
        has_spec = true;
        if let Some(range) = parse_range(spec, len)? {
            add(&mut ranges, range);
        }
    }
    Some(match ranges.as_slice() {
        _ if !has_spec => return None,
        [] => Part::Unsatisfiable,
        [range] => Part::Range(*range),
        _ => Part::Ranges(ranges),
    })
}

/// Parses one range: `Some(None)` if it has no byte of the file.
fn parse_range(spec: &str, len: u64) -> Option<Option<Range>> {
    let (first, last) = spec.split_once('-')?;
    if first.is_empty() {
        let suffix = number(last)?;
        let end = len.checked_sub(1).filter(|_| suffix > 0);
        return Some(end.map(|last| Range { first: len.saturating_sub(suffix), last }));
    }
    let first = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if last < first {
        return None;
    }
    Some((first < len).then(|| Range { first, last: last.min(len - 1) }))
}

/// Adds a range to ranges that don't touch, in the place of the first one that it touches.
fn add(ranges: &mut Vec<Range>, range: Range) {
    let place = ranges.iter().position(|other| other.touches(range)).unwrap_or(ranges.len());
    let touched = ranges.iter().filter(|other| other.touches(range));
    let joined = touched.fold(range, |joined, other| joined.join(*other));
    ranges.retain(|other| !other.touches(range));
    ranges.insert(place, joined);
}

/// Parses digits alone; a number too large for 64 bits counts as the largest.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
