//! One URL: the request, its redirections and repetitions, and the file it goes to.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Body;
use hyper::header::{
    CONTENT_RANGE, ETAG, HOST, HeaderMap, HeaderValue, IF_RANGE, LOCATION, RANGE, USER_AGENT,
};
use hyper::{Request, Uri};
use indicatif::ProgressBar;
use tokio::time::Instant;
use url::Url;

use super::Report;
use super::failure::{Failure, causes};
use super::output::{Existing, Output, Writer};
use super::transport::{Answer, Choice, Transports};

/// Redirections that are followed.
const REDIRECTIONS_MAX: u32 = 10;
/// Bytes of a page that are searched for objects.
const PAGE_MAX: u64 = 16 << 20;
/// Pause before the first repetition, doubled for each further one.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// A URL to fetch.
pub(super) struct Fetch<'a> {
    pub(super) url: &'a Url,
    pub(super) output: Output,
    /// Whether to go on where the file ends.
    pub(super) resume: bool,
    pub(super) retries: u32,
    pub(super) limit: Duration,
    /// Whether the text of the file is wanted, too.
    pub(super) keeps_text: bool,
    pub(super) bar: ProgressBar,
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
    /// The strong entity tag of what was received.
    etag: Option<HeaderValue>,
}

/// A failed attempt.
struct Failed {
    failure: Failure,
    /// Whether the association has ended, and TCP can take its place.
    is_replaceable: bool,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self { failure, is_replaceable: false }
    }
}

impl Fetch<'_> {
    /// Fetches the URL, and returns the page's text if it is wanted.
    pub(super) async fn run(&self, transports: &Transports) -> (Report, Option<Failure>, Option<String>) {
        #[allow(clippy::disallowed_methods, reason = "it measures how long a request takes")]
        let begin = Instant::now();
        let mut progress = Progress::default();
        let attempts = self.attempts(transports, &mut progress);
        let result = tokio::time::timeout(self.limit, attempts).await.unwrap_or(Err(Failure::Timeout));
        self.bar.finish_and_clear();
        let is_kept = self.keeps_text && result.is_ok();
        let text = if is_kept { self.output.text(PAGE_MAX).transpose() } else { Ok(None) };
        let (failure, text) = match (result, text) {
            (Ok(()), Ok(text)) => (None, text),
            (Err(failure), _) | (Ok(()), Err(failure)) => (Some(failure), None),
        };
        let report = Report {
            url: self.url.to_string(),
            status: progress.status,
            bytes: progress.bytes,
            seconds: begin.elapsed().as_secs_f64(),
            transport: progress.transport,
            file: self.output.file().map(Path::to_path_buf),
            error: failure.as_ref().map(ToString::to_string),
        };
        (report, failure, text)
    }

    async fn attempts(&self, transports: &Transports, progress: &mut Progress) -> Result<(), Failure> {
        let (mut pause, mut retries, mut choice) = (PAUSE, self.retries, Choice::Any);
        loop {
            let Failed { failure, is_replaceable } = match self.attempt(transports, progress, choice).await {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            if !failure.is_transient() || !self.can_repeat(progress) {
                return Err(failure);
            }
            if is_replaceable {
                choice = Choice::Tcp;
                continue;
            }
            if retries == 0 {
                return Err(failure);
            }
            retries -= 1;
            choice = Choice::Any;
            tokio::time::sleep(pause).await;
            pause = PAUSE_MAX.min(pause * 2);
        }
    }

    /// Returns whether a response can still be received as a whole. Standard output can't be taken back.
    fn can_repeat(&self, progress: &Progress) -> bool {
        self.output != Output::Standard || progress.shown == 0 || progress.etag.is_some()
    }

    /// Returns how much of the body is there already: of a file that is to be continued, or that this run has begun, if
    /// its entity tag can show that it is the same.
    fn have(&self, progress: &Progress) -> u64 {
        match &self.output {
            Output::Standard => progress.shown,
            Output::File { path, existing } => {
                let is_known = progress.has_begun && progress.etag.is_some();
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
        let mut url = self.url.clone();
        for _ in 0..=REDIRECTIONS_MAX {
            let request = request(&url, have, progress.etag.as_ref())?;
            let Answer { response, carrier } = transports.send(&url, request, choice).await?;
            let (status, headers) = (response.status().as_u16(), response.headers());
            progress.status = Some(status);
            progress.transport = Some(carrier.name());
            if response.status().is_redirection()
                && let Some(to) = headers.get(LOCATION)
            {
                url = redirected(&url, to)?;
                continue;
            }
            if have > 0 && status == 416 && is_complete(headers, have) {
                progress.status = Some(200);
                return Ok(());
            }
            if status >= 400 {
                return Err(Failure::Status(status).into());
            }
            let range = if status == 206 { ContentRange::of(headers) } else { Some(ContentRange::WHOLE) };
            let Some(range) = range.filter(|range| range.first == 0 || range.first == have) else {
                let text = "the server sent another range than the one asked for";
                return Err(Failure::Receive(text.to_owned()).into());
            };
            if range.first < progress.shown {
                let cause = "the server has another file now".to_owned();
                return Err(Failure::Partial { received: progress.shown, cause }.into());
            }
            progress.etag = headers.get(ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/")).cloned();
            let received = self.receive(response.into_body(), progress, range.first).await;
            received.map_err(|failure| Failed { failure, is_replaceable: carrier.is_replaceable() })?;
            return Ok(range.check_end()?);
        }
        Err(Failure::Redirections(REDIRECTIONS_MAX).into())
    }

    /// Writes a body to its place.
    async fn receive(
        &self,
        mut body: hyper::body::Incoming,
        progress: &mut Progress,
        from: u64,
    ) -> Result<(), Failure> {
        let mut writer = Writer::open(&self.output, from, progress.has_begun)?;
        progress.has_begun = true;
        if let Some(len) = body.size_hint().exact() {
            self.bar.set_length(from + len);
        }
        self.bar.set_position(from);
        progress.bytes = 0;
        while let Some(frame) = body.frame().await {
            let received = from + progress.bytes;
            let frame = frame.map_err(|error| Failure::Partial { received, cause: causes(&error) })?;
            let Ok(data) = frame.into_data() else { continue };
            writer.write(&data)?;
            let bytes = data.len() as u64;
            progress.bytes += bytes;
            if self.output == Output::Standard {
                progress.shown += bytes;
            }
            self.bar.inc(bytes);
        }
        writer.finish()
    }
}

/// Returns where a redirection leads.
fn redirected(from: &Url, location: &HeaderValue) -> Result<Url, Failure> {
    let to = location.to_str().map_err(|error| Failure::Url(error.to_string()))?;
    let url = from.join(to).map_err(|error| Failure::Url(error.to_string()))?;
    match url.scheme() {
        "http" | "https" | "http+sctp" => Ok(url),
        other => Err(Failure::Scheme(other.to_owned())),
    }
}

/// Builds the request for a URL, from a byte on.
fn request(url: &Url, have: u64, etag: Option<&HeaderValue>) -> Result<Request<Empty<Bytes>>, Failure> {
    let invalid = |error: hyper::http::Error| Failure::Url(error.to_string());
    let mut bare = url.clone();
    bare.set_fragment(None);
    let uri: Uri = bare.as_str().parse().map_err(|error| invalid(hyper::http::Error::from(error)))?;
    let host = url.host_str().unwrap_or_default();
    let host = url.port().map_or(host.to_owned(), |port| format!("{host}:{port}"));
    let version = concat!("strandline/", env!("CARGO_PKG_VERSION"));
    let mut request = Request::get(uri).header(HOST, host).header(USER_AGENT, version);
    if have > 0 {
        request = request.header(RANGE, format!("bytes={have}-"));
        if let Some(etag) = etag {
            request = request.header(IF_RANGE, etag);
        }
    }
    request.body(Empty::new()).map_err(invalid)
}

/// The part of a file that a response holds (RFC 9110 section 14.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ContentRange {
    first: u64,
    /// The last byte and the length of the file, if they are known.
    last_of: Option<(u64, u64)>,
}

impl ContentRange {
    /// A response that isn't partial.
    const WHOLE: Self = Self { first: 0, last_of: None };

    /// Reads the Content-Range of a 206.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let range = headers.get(CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")?;
        let (first, rest) = range.split_once('-')?;
        let (last, len) = rest.split_once('/')?;
        let last = last.parse().ok()?;
        let len = if len == "*" { None } else { Some(len.parse().ok()?) };
        Some(Self { first: first.parse().ok()?, last_of: len.map(|len| (last, len)) })
    }

    /// Checks that the part reaches to the end of the file.
    fn check_end(self) -> Result<(), Failure> {
        match self.last_of {
            Some((last, len)) if last.checked_add(1) != Some(len) => Err(Failure::Partial {
                received: last.saturating_add(1),
                cause: format!("the server sent only a part of {len} bytes"),
            }),
            _ => Ok(()),
        }
    }
}

/// Returns whether an unsatisfiable range means that the file is complete.
fn is_complete(headers: &HeaderMap, have: u64) -> bool {
    let range = headers.get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
    range.is_some_and(|range| range == format!("bytes */{have}"))
}
