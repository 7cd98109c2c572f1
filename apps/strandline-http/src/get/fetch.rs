//! One URL: the request, its redirections and repetitions, and the file it goes to.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
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
use super::transport::Transports;

/// Redirections that are followed.
const REDIRECTIONS_MAX: u32 = 10;
/// Bytes of a page that are searched for objects.
const PAGE_MAX: usize = 16 << 20;
/// Pause before the first repetition, doubled for each further one.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// The place for a response's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Output {
    Standard,
    File(PathBuf),
    Nothing,
}

/// A URL to fetch.
pub(super) struct Fetch<'a> {
    pub(super) url: &'a Url,
    pub(super) output: Output,
    /// Whether to go on where the file ends.
    pub(super) resume: bool,
    pub(super) retries: u32,
    pub(super) limit: Duration,
    /// Whether the text is wanted in memory, too.
    pub(super) keeps_text: bool,
    pub(super) bar: ProgressBar,
}

/// What has been received so far.
#[derive(Debug, Default)]
struct Progress {
    status: Option<u16>,
    bytes: u64,
    transport: Option<&'static str>,
    /// The strong entity tag of what was received.
    etag: Option<HeaderValue>,
    text: Vec<u8>,
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
        let failure = result.err();
        let file = match &self.output {
            Output::File(file) => Some(file.clone()),
            _ => None,
        };
        let report = Report {
            url: self.url.to_string(),
            status: progress.status,
            bytes: progress.bytes,
            seconds: begin.elapsed().as_secs_f64(),
            transport: progress.transport,
            file,
            error: failure.as_ref().map(ToString::to_string),
        };
        let is_kept = self.keeps_text && failure.is_none();
        (report, failure, is_kept.then(|| String::from_utf8_lossy(&progress.text).into_owned()))
    }

    async fn attempts(&self, transports: &Transports, progress: &mut Progress) -> Result<(), Failure> {
        let mut pause = PAUSE;
        for attempt in 0.. {
            // A repetition goes on where a file ends that this run has begun, if its entity tag shows that it is the same;
            // standard output can't be taken back.
            let is_known = attempt > 0 && matches!(self.output, Output::File(_)) && progress.etag.is_some();
            let resumes = self.resume || is_known;
            match self.attempt(transports, progress, resumes).await {
                Err(failure)
                    if failure.is_transient() && attempt < self.retries && self.can_repeat(progress) =>
                {
                    tokio::time::sleep(pause).await;
                    pause = PAUSE_MAX.min(pause * 2);
                }
                done => return done,
            }
        }
        Ok(())
    }

    fn can_repeat(&self, progress: &Progress) -> bool {
        self.output != Output::Standard || progress.bytes == 0
    }

    async fn attempt(
        &self,
        transports: &Transports,
        progress: &mut Progress,
        resumes: bool,
    ) -> Result<(), Failure> {
        let have = match &self.output {
            Output::File(file) if resumes => file.metadata().map_or(0, |file| file.len()),
            _ => 0,
        };
        let mut url = self.url.clone();
        for _ in 0..=REDIRECTIONS_MAX {
            let answer = transports.send(&url, request(&url, have, progress.etag.as_ref())?).await?;
            let (status, headers) = (answer.response.status(), answer.response.headers());
            progress.status = Some(status.as_u16());
            progress.transport = Some(answer.transport);
            if status.is_redirection()
                && let Some(to) = headers.get(LOCATION)
            {
                let to = to.to_str().map_err(|error| Failure::Url(error.to_string()))?;
                url = url.join(to).map_err(|error| Failure::Url(error.to_string()))?;
                if !matches!(url.scheme(), "http" | "https" | "http+sctp") {
                    return Err(Failure::Scheme(url.scheme().to_owned()));
                }
                continue;
            }
            if have > 0 && status.as_u16() == 416 && is_complete(headers, have) {
                progress.status = Some(200);
                return Ok(());
            }
            if status.as_u16() >= 400 {
                return Err(Failure::Status(status.as_u16()));
            }
            let range =
                if status.as_u16() == 206 { ContentRange::of(headers) } else { Some(ContentRange::WHOLE) };
            let Some(range) = range.filter(|range| range.first == 0 || range.first == have) else {
                return Err(Failure::Receive(
                    "the server sent another range than the one asked for".to_owned(),
                ));
            };
            progress.etag = headers.get(ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/")).cloned();
            self.receive(answer.response.into_body(), progress, range.first).await?;
            return range.check_end();
        }
        Err(Failure::Receive(format!("more than {REDIRECTIONS_MAX} redirections")))
    }

    /// Writes a body to its place.
    async fn receive(
        &self,
        mut body: hyper::body::Incoming,
        progress: &mut Progress,
        from: u64,
    ) -> Result<(), Failure> {
        let mut writer = Writer::open(&self.output, from)?;
        if let Some(len) = body.size_hint().exact() {
            self.bar.set_length(from + len);
        }
        self.bar.set_position(from);
        progress.bytes = 0;
        progress.text.clear();
        while let Some(frame) = body.frame().await {
            let received = from + progress.bytes;
            let frame = frame.map_err(|error| Failure::Partial { received, cause: causes(&error) })?;
            let Ok(data) = frame.into_data() else { continue };
            writer.write(&data)?;
            if self.keeps_text && progress.text.len() < PAGE_MAX {
                progress.text.extend_from_slice(&data);
            }
            progress.bytes += data.len() as u64;
            self.bar.inc(data.len() as u64);
        }
        writer.finish()
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

/// A file or standard output that is written.
struct Writer {
    to: Option<Box<dyn Write + Send>>,
    name: String,
}

impl Writer {
    /// Opens the place, to be written from a byte on.
    fn open(output: &Output, from: u64) -> Result<Self, Failure> {
        let (to, name): (Option<Box<dyn Write + Send>>, _) = match output {
            Output::Nothing => (None, String::new()),
            Output::Standard => (Some(Box::new(io::stdout())), "standard output".to_owned()),
            Output::File(file) => {
                let name = file.display().to_string();
                let opened =
                    open(file, from).map_err(|cause| Failure::Write { file: name.clone(), cause })?;
                (Some(Box::new(opened)), name)
            }
        };
        Ok(Self { to, name })
    }

    fn write(&mut self, data: &[u8]) -> Result<(), Failure> {
        let Some(to) = &mut self.to else { return Ok(()) };
        to.write_all(data).map_err(|cause| Failure::Write { file: self.name.clone(), cause })
    }

    fn finish(mut self) -> Result<(), Failure> {
        let Some(to) = &mut self.to else { return Ok(()) };
        to.flush().map_err(|cause| Failure::Write { file: self.name.clone(), cause })
    }
}

fn open(file: &Path, from: u64) -> io::Result<File> {
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    if from > 0 {
        let file = OpenOptions::new().append(true).open(file)?;
        return if file.metadata()?.len() == from {
            Ok(file)
        } else {
            Err(io::ErrorKind::InvalidData.into())
        };
    }
    File::create(file)
}
