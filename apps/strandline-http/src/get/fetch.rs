//! One URL: the request, its redirections and repetitions, and the file it goes to.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use indicatif::ProgressBar;
use tokio::time::{Instant, timeout};
use url::Url;

use super::Report;
use super::failure::Failure;
use super::output::{Existing, Output, Writer};
use super::page::Kind;
use super::range::{ContentRange, complete_length, is_of, validator};
use super::request::{Credentials, redirected, request, without_password};
use super::transport::{Answer, Choice, Transports};
use crate::causes::causes;

/// Redirections that are followed.
const REDIRECTIONS_MAX: u32 = 10;
/// Bytes of a page or style sheet that are searched for objects.
const TEXT_MAX: u64 = 16 << 20;
/// Pause before the first repetition, doubled for each further one.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(64);
/// Longest pause that a server may ask for by Retry-After.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

/// What the text of a response is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    Nothing,
    /// It is a page or a style sheet, by its media type, or a page without one.
    Page,
    /// It may be a style sheet, by its media type, or by this without one.
    Object {
        is_style: bool,
    },
}

impl Search {
    fn kind(self, headers: &HeaderMap) -> Option<Kind> {
        let named = headers.get(CONTENT_TYPE).map(|value| value.to_str().ok().and_then(Kind::of_media_type));
        match self {
            Self::Nothing => None,
            Self::Page => named.unwrap_or(Some(Kind::Page)),
            Self::Object { is_style } => {
                named.unwrap_or(is_style.then_some(Kind::Style)).filter(|kind| *kind == Kind::Style)
            }
        }
    }
}

/// Limits of a fetch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits<'a> {
    /// Time for all attempts.
    pub(super) time: Duration,
    /// Time without a byte of the body.
    pub(super) stall: Duration,
    /// Bytes of the file.
    pub(super) bytes: u64,
    /// Bytes that are left for everything that pages name.
    pub(super) budget: Option<&'a AtomicU64>,
    /// Bytes that are left for texts to search.
    pub(super) texts: &'a AtomicU64,
}

/// A URL to fetch.
pub(super) struct Fetch<'a> {
    pub(super) url: &'a Url,
    pub(super) output: Output,
    /// Whether to go on where the file ends.
    pub(super) resume: bool,
    pub(super) retries: u32,
    pub(super) limits: Limits<'a>,
    pub(super) search: Search,
    pub(super) bar: ProgressBar,
}

/// A text that may name objects.
#[derive(Debug)]
pub(super) struct Text {
    /// The URL that it came from, after redirections.
    pub(super) base: Url,
    pub(super) kind: Kind,
    pub(super) text: String,
}

/// What has been received so far.
#[derive(Debug, Default)]
struct Progress {
    status: Option<u16>,
    /// Bytes of the latest response.
    bytes: u64,
    /// Bytes of the whole body that have been written to standard output.
    shown: u64,
    /// Whether this run has begun the file.
    has_begun: bool,
    transport: Option<&'static str>,
    /// What shows that the server still has the file that was received.
    validator: Option<HeaderValue>,
    /// Where the response came from, and what it is, if it is searched.
    searched: Option<(Url, Kind)>,
}

/// A failed attempt.
struct Failed {
    failure: Failure,
    /// The transports that can take the place of the association, which has ended or stalls.
    replacement: Option<Choice>,
    /// The pause that the server asks for.
    retry_after: Option<Duration>,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self { failure, replacement: None, retry_after: None }
    }
}

impl Fetch<'_> {
    /// Fetches the URL, and returns the text if it is to be searched.
    pub(super) async fn run(&self, transports: &Transports) -> (Report, Option<Failure>, Option<Text>) {
        #[allow(clippy::disallowed_methods, reason = "it measures how long a request takes")]
        let begin = Instant::now();
        let mut progress = Progress::default();
        let attempts = self.attempts(transports, &mut progress);
        let result = timeout(self.limits.time, attempts).await.unwrap_or(Err(Failure::Timeout));
        self.bar.finish_and_clear();
        let text = match &result {
            Ok(()) => self.text(&mut progress),
            Err(_) => Ok(None),
        };
        let (failure, text) = match (result, text) {
            (Ok(()), Ok(text)) => (None, text),
            (Err(failure), _) | (Ok(()), Err(failure)) => (Some(failure), None),
        };
        let report = Report {
            url: without_password(self.url).to_string(),
            status: progress.status,
            bytes: progress.bytes,
            seconds: begin.elapsed().as_secs_f64(),
            transport: progress.transport,
            file: self.output.file().map(Path::to_path_buf),
            error: failure.as_ref().map(ToString::to_string),
        };
        (report, failure, text)
    }

    /// Reads the text that is to be searched, as far as the limits permit.
    fn text(&self, progress: &mut Progress) -> Result<Option<Text>, Failure> {
        let Some((base, kind)) = progress.searched.take() else { return Ok(None) };
        let left = self.limits.texts.load(Ordering::Relaxed);
        let Some(text) = self.output.text(TEXT_MAX.min(left)).transpose()? else { return Ok(None) };
        self.limits.texts.fetch_sub(left.min(text.len() as u64), Ordering::Relaxed);
        Ok(Some(Text { base, kind, text }))
    }

    async fn attempts(&self, transports: &Transports, progress: &mut Progress) -> Result<(), Failure> {
        let (mut pause, mut retries, mut choice) = (PAUSE, self.retries, Choice::Any);
        loop {
            let failed = match self.attempt(transports, progress, choice).await {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            if !failed.failure.is_transient() || !self.can_repeat(progress) {
                return Err(failed.failure);
            }
            if let Some(replacement) = failed.replacement {
                choice = replacement;
                continue;
            }
            if retries == 0 || failed.retry_after.is_some_and(|wait| wait > RETRY_AFTER_MAX) {
                return Err(failed.failure);
            }
            retries -= 1;
            choice = Choice::Any;
            tokio::time::sleep(failed.retry_after.unwrap_or(pause)).await;
            pause = PAUSE_MAX.min(pause * 2);
        }
    }

    /// Returns whether a response can still be received as a whole. Standard output can't be taken back.
    fn can_repeat(&self, progress: &Progress) -> bool {
        self.output != Output::Standard || progress.shown == 0 || progress.validator.is_some()
    }

    /// Returns how much of the body is there already: of a file that is to be continued, or that this run has begun, if
    /// it can be shown that it is the same.
    fn have(&self, progress: &Progress) -> u64 {
        match &self.output {
            Output::Standard => progress.shown,
            Output::File { path, existing } => {
                let is_known = progress.has_begun && progress.validator.is_some();
                let is_continued = self.resume && (*existing != Existing::Kept || progress.has_begun);
                if is_known || is_continued { path.metadata().map_or(0, |file| file.len()) } else { 0 }
            }
            Output::Nothing => 0,
        }
    }

    async fn attempt(
        &self,
        transports: &Transports,
        progress: &mut Progress,
        choice: Choice,
    ) -> Result<(), Failed> {
        let have = self.have(progress);
        if have > 0 && !progress.has_begun {
            // Of the file that an earlier run has begun.
            progress.validator = self.output.validator();
        }
        let mut url = self.url.clone();
        let mut credentials = Credentials::of(&url);
        for _ in 0..=REDIRECTIONS_MAX {
            let request = request(&url, have, progress.validator.as_ref(), credentials.as_ref())?;
            let Answer { response, carrier } = transports.send(&url, request, choice).await?;
            let (status, headers) = (response.status().as_u16(), response.headers());
            progress.status = Some(status);
            progress.transport = Some(carrier.name());
            if response.status().is_redirection()
                && let Some(to) = headers.get(LOCATION)
            {
                url = redirected(&url, to)?;
                credentials = credentials.and_then(|own| own.after(&url)).or_else(|| Credentials::of(&url));
                continue;
            }
            if have > 0
                && status == 416
                && let Some(len) = complete_length(headers)
            {
                // The response has the media type of an error.
                progress.searched = self.search.kind(&HeaderMap::new()).map(|kind| (url, kind));
                return self.on_unsatisfied(progress, have, len).map_err(Into::into);
            }
            if status >= 400 {
                let retry_after = retry_after(headers);
                return Err(Failed { retry_after, ..Failure::Status(status).into() });
            }
            progress.searched = self.search.kind(headers).map(|kind| (url, kind));
            let range = self.check_range(progress, status, headers, have)?;
            let from = range.map_or(0, |range| range.first);
            if range.is_none() || progress.validator.is_none() {
                progress.validator = validator(headers);
            }
            let received = self.receive(response.into_body(), progress, from, range).await;
            received
                .map_err(|failure| Failed { replacement: carrier.replacement(&failure), ..failure.into() })?;
            self.output.forget_validator();
            return Ok(());
        }
        Err(Failure::Redirections(REDIRECTIONS_MAX).into())
    }

    /// Handles the answer that the file ends where, or before, this one does.
    fn on_unsatisfied(&self, progress: &mut Progress, have: u64, len: u64) -> Result<(), Failure> {
        if have != len {
            return Err(Failure::Range(format!("there are {have} bytes already, and the server has {len}")));
        }
        progress.status = Some(200);
        self.output.forget_validator();
        Ok(())
    }

    /// Compares the part that a response holds with the one that was asked for. `None`: it holds the whole file.
    fn check_range(
        &self,
        progress: &Progress,
        status: u16,
        headers: &HeaderMap,
        have: u64,
    ) -> Result<Option<ContentRange>, Failure> {
        let is_other = |cause: &str| Failure::Range(cause.to_owned());
        if status != 206 {
            return match have {
                1.. if progress.shown > 0 => {
                    let cause = "the server has another file now, or doesn't continue it".to_owned();
                    Err(Failure::Partial { received: progress.shown, cause })
                }
                1.. if self.resume && !progress.has_begun => Err(match progress.validator {
                    Some(_) => is_other("the server has another file now: without -C it is fetched anew"),
                    None => is_other("the server doesn't continue files: without -C it is fetched anew"),
                }),
                _ => Ok(None),
            };
        }
        let range = ContentRange::of(headers);
        let range =
            range.ok_or_else(|| is_other("the server doesn't say which part of the file it sends"))?;
        if range.first != have {
            return Err(is_other("the server sends another part of the file than the one asked for"));
        }
        match &progress.validator {
            Some(known) if have > 0 && !is_of(headers, known) => {
                Err(is_other("the server sends a part of another file"))
            }
            _ => Ok(Some(range)),
        }
    }

    /// Writes a body to its place.
    async fn receive(
        &self,
        mut body: Incoming,
        progress: &mut Progress,
        from: u64,
        range: Option<ContentRange>,
    ) -> Result<(), Failure> {
        let expected = body.size_hint().exact();
        self.check_size(from.saturating_add(expected.unwrap_or(0)))?;
        let bytes_max = range.map_or(u64::MAX, ContentRange::bytes);
        if expected.is_some_and(|bytes| bytes > bytes_max) {
            return Err(Failure::Range("the server sends more than the part that it names".to_owned()));
        }
        let mut writer = Writer::open(&self.output, from, progress.has_begun)?;
        progress.has_begun = true;
        if let Some(validator) = &progress.validator {
            self.output.keep_validator(validator);
        }
        if let Some(len) = expected {
            self.bar.set_length(from + len);
        }
        self.bar.set_position(from);
        progress.bytes = 0;
        let stall = self.limits.stall;
        while let Some(frame) = timeout(stall, body.frame()).await.map_err(|_| Failure::Stalled(stall))? {
            let received = from + progress.bytes;
            let frame = frame.map_err(|error| Failure::Partial { received, cause: causes(&error) })?;
            let Ok(data) = frame.into_data() else { continue };
            let bytes = data.len() as u64;
            if bytes > bytes_max - progress.bytes {
                return Err(Failure::Range("the server sends more than the part that it names".to_owned()));
            }
            self.check_size(received.saturating_add(bytes))?;
            self.take_from_budget(bytes)?;
            writer.write(&data)?;
            progress.bytes += bytes;
            if self.output == Output::Standard {
                progress.shown += bytes;
            }
            self.bar.inc(bytes);
        }
        writer.finish()?;
        range.map_or(Ok(()), |range| range.check_end(progress.bytes))
    }

    fn check_size(&self, bytes: u64) -> Result<(), Failure> {
        if bytes > self.limits.bytes { Err(Failure::TooLarge(self.limits.bytes)) } else { Ok(()) }
    }

    /// Takes bytes of an object from what is left for all.
    fn take_from_budget(&self, bytes: u64) -> Result<(), Failure> {
        let Some(budget) = self.limits.budget else { return Ok(()) };
        let left = |left: u64| left.checked_sub(bytes);
        match budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left) {
            Ok(_) => Ok(()),
            Err(_) => Err(Failure::Budget),
        }
    }
}

/// Returns the pause that a server asks for: seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    #[allow(clippy::disallowed_methods, reason = "the time of day that a server names")]
    let now = SystemTime::now();
    Some(httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default())
}
