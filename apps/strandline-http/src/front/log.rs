//! The access log: combined format, or a JSON object a line.

mod writer;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONTENT_LENGTH, HeaderName, HeaderValue, REFERER, TRANSFER_ENCODING, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};

pub(crate) use self::writer::Counts;
use self::writer::Writer;

/// Format of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// The combined format of Apache and nginx
    Combined,
    /// A JSON object a line
    Json,
}

/// The way in which a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    Tcp,
    Tls,
    Sctp,
}

/// The sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) address: Option<SocketAddr>,
    pub(crate) transport: Transport,
    pub(crate) stream: Option<u16>,
}

/// Time that the end of a server has to write the lines that wait.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// An access log. A line is handed over when a response has been sent or given up, and written by a thread.
pub(crate) struct AccessLog {
    format: Format,
    writer: Writer,
}

impl std::fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessLog").field("format", &self.format).finish_non_exhaustive()
    }
}

impl AccessLog {
    /// Opens a log that is appended to a file, or goes to standard output if the path is `-`.
    pub(crate) fn open(path: &Path, format: Format) -> io::Result<Self> {
        Ok(Self { format, writer: Writer::open(path)? })
    }

    fn write(&self, entry: &Entry) {
        let line = match self.format {
            Format::Combined => entry.combined(),
            Format::Json => serde_json::to_string(entry).unwrap_or_default(),
        };
        self.writer.push(&line);
    }

    /// Opens the file again, for programs that have renamed it.
    pub(crate) fn reopen(&self) {
        self.writer.reopen();
    }

    /// Returns how many lines were written, and lost.
    pub(crate) fn counts(&self) -> Counts {
        self.writer.counts()
    }

    /// Waits until no line waits any more. Returns whether that was so in time.
    pub(crate) fn flush(&self, limit: Duration) -> bool {
        self.writer.flush(limit)
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        if !self.flush(END_TIMEOUT) {
            tracing::error!("the access log's file is too slow: its last lines are lost");
        }
    }
}

/// A line of the log.
#[derive(Debug, serde::Serialize)]
struct Entry {
    time: String,
    client: Option<String>,
    transport: Transport,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<u16>,
    /// The way to the upstream server of a proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<&'static str>,
    method: String,
    target: String,
    version: String,
    status: u16,
    body_bytes: u64,
    /// Whether the whole body was handed to the connection.
    complete: bool,
    referer: Option<String>,
    user_agent: Option<String>,
}

impl Entry {
    fn combined(&self) -> String {
        format!(
            "{} - - [{}] \"{} {} {}\" {} {} \"{}\" \"{}\"",
            self.client.as_deref().unwrap_or("-"),
            clf_time(&self.time),
            self.method,
            escape(&self.target),
            self.version,
            self.status,
            self.body_bytes,
            escape(self.referer.as_deref().unwrap_or("-")),
            escape(self.user_agent.as_deref().unwrap_or("-")),
        )
    }
}

/// Turns `Tue, 14 Nov 2023 22:13:20 GMT` into `14/Nov/2023:22:13:20 +0000`.
fn clf_time(http_date: &str) -> String {
    let mut parts = http_date.split(' ').skip(1);
    let mut next = || parts.next().unwrap_or_default();
    let (day, month, year, time) = (next(), next(), next(), next());
    format!("{day}/{month}/{year}:{time} +0000")
}

/// Escapes quotes, backslashes and control characters, so that a client can't forge a line.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => escaped.extend(['\\', character]),
            _ if character.is_control() => escaped.push_str(&format!("\\x{:02X}", u32::from(character))),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// The line of a request. It is written when this value is dropped.
#[derive(Debug)]
pub(crate) struct Line {
    entry: Entry,
    log: Arc<AccessLog>,
}

impl Line {
    /// Begins the line of a request; `None` if there is no log.
    pub(crate) fn begin<B>(
        request: &Request<B>,
        sender: Sender,
        log: Option<&Arc<AccessLog>>,
    ) -> Option<Self> {
        let log = Arc::clone(log?);
        let text = |name: HeaderName| {
            request.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        #[allow(clippy::disallowed_methods, reason = "the time of day for a log")]
        let now = SystemTime::now();
        let target = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
        let entry = Entry {
            time: httpdate::fmt_http_date(now),
            client: sender.address.map(|address| address.ip().to_string()),
            transport: sender.transport,
            stream: sender.stream,
            upstream: None,
            method: request.method().to_string(),
            target,
            version: format!("{:?}", request.version()),
            status: 0,
            body_bytes: 0,
            complete: false,
            referer: text(REFERER),
            user_agent: text(USER_AGENT),
        };
        Some(Self { entry, log })
    }

    /// Sets the target, if it isn't a path of this server.
    pub(crate) fn set_target(&mut self, target: String) {
        self.entry.target = target;
    }

    /// Sets the way to the upstream server.
    pub(crate) fn set_upstream(&mut self, upstream: &'static str) {
        self.entry.upstream = Some(upstream);
    }

    pub(crate) fn set_status(&mut self, status: StatusCode) {
        self.entry.status = status.as_u16();
    }

    /// Counts bytes that were sent to the client.
    pub(crate) fn add_bytes(&mut self, bytes: u64) {
        self.entry.body_bytes += bytes;
    }

    /// Notes that everything was sent.
    pub(crate) fn set_complete(&mut self) {
        self.entry.complete = true;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.log.write(&self.entry);
    }
}

/// A body that is logged once it was sent or dropped.
#[derive(Debug)]
pub(crate) struct LoggedBody<B: Body> {
    inner: B,
    /// True if the request was HEAD: the response has the fields of a body, but none (RFC 9110 section
    /// 9.3.2). Over HTTP/2 nothing else would keep it back.
    is_head: bool,
    has_ended: bool,
    line: Option<Line>,
}

impl<B: Body> LoggedBody<B> {
    /// Makes a response to a request with this method one that is logged, if there is a log.
    pub(crate) fn respond(
        mut response: Response<B>,
        method: &Method,
        mut line: Option<Line>,
    ) -> Response<Self> {
        if let Some(line) = &mut line {
            line.set_status(response.status());
        }
        let is_head = *method == Method::HEAD;
        if is_head
            && let Some(len) = response.body().size_hint().exact().filter(|len| *len > 0)
            && !response.headers().contains_key(TRANSFER_ENCODING)
        {
            response.headers_mut().entry(CONTENT_LENGTH).or_insert(HeaderValue::from(len));
        }
        response.map(|inner| Self { inner, is_head, has_ended: false, line })
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for LoggedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        if this.is_head {
            this.has_ended = true;
            return Poll::Ready(None);
        }
        let frame = Pin::new(&mut this.inner).poll_frame(cx);
        match (&mut this.line, &frame) {
            (Some(line), Poll::Ready(Some(Ok(frame)))) => {
                line.add_bytes(frame.data_ref().map_or(0, Bytes::len) as u64);
            }
            (_, Poll::Ready(None)) => this.has_ended = true,
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.is_head || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B: Body> Drop for LoggedBody<B> {
    fn drop(&mut self) {
        if let Some(mut line) = self.line.take()
            && (self.is_head || self.has_ended || self.inner.is_end_stream())
        {
            line.set_complete();
        }
    }
}

#[cfg(test)]
mod tests;
