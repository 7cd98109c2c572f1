//! Static files as a service: paths, conditions, ranges, precompressed files, listings.

mod body;
mod conditions;
mod encodings;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzing;
mod listing;
mod path;
mod root;
#[cfg(test)]
pub(crate) mod testing;

use std::fs::{File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::Path;

use hyper::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    HeaderValue, LAST_MODIFIED, LOCATION, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use rustix::io::Errno;

pub(crate) use self::body::FileBody;
use self::conditions::{Outcome, Part, Range, Times, Validators};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::fuzzing::run as fuzz;
use self::path::Target;
use self::root::Root;

/// The file that stands for its directory.
const INDEX: &str = "index.html";

/// The files of a directory.
#[derive(Debug)]
pub(crate) struct Files {
    root: Root,
    lists_directories: bool,
}

/// A file to send.
struct Found {
    file: File,
    metadata: Metadata,
    encoding: Option<&'static str>,
    content_type: String,
}

impl Files {
    /// Opens a directory. With `lists_directories`, directories without an index file are listed.
    pub(crate) fn open(path: &Path, lists_directories: bool) -> io::Result<Self> {
        Ok(Self { root: Root::open(path)?, lists_directories })
    }

    /// Answers a request.
    pub(crate) fn answer<B>(&self, request: &Request<B>) -> Response<FileBody> {
        let is_of_server = request.uri().path() == "*";
        if crate::host::check(request).is_err() || (is_of_server && request.method() != Method::OPTIONS) {
            return status(StatusCode::BAD_REQUEST);
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut response = match *request.method() {
                Method::OPTIONS => Response::new(FileBody::text("")),
                _ => status(StatusCode::METHOD_NOT_ALLOWED),
            };
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
            return response;
        }
        let Some(target) = Target::parse(request.uri().path()) else { return status(StatusCode::NOT_FOUND) };
        self.look_up(&target, request).unwrap_or_else(|error| failure(&error))
    }

    fn look_up<B>(&self, target: &Target, request: &Request<B>) -> io::Result<Response<FileBody>> {
        let file = self.root.file(&target.path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return self.directory(target, &file, request);
        }
        if target.is_directory || !metadata.is_file() {
            return Ok(status(StatusCode::NOT_FOUND));
        }
        self.file(&target.path, (file, metadata), request)
    }

    fn directory<B>(
        &self,
        target: &Target,
        directory: &File,
        request: &Request<B>,
    ) -> io::Result<Response<FileBody>> {
        if !target.is_directory {
            return Ok(redirect(&target.path, request.uri().query()));
        }
        let slash = if target.path.is_empty() { "" } else { "/" };
        let index = format!("{}{slash}{INDEX}", target.path);
        match self.root.file(&index) {
            Ok(file) => {
                let metadata = file.metadata()?;
                if metadata.is_file() {
                    return self.file(&index, (file, metadata), request);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if !self.lists_directories {
            return Ok(status(StatusCode::NOT_FOUND));
        }
        if !encodings::accepted(request.headers()).contains(&None) {
            return Ok(not_acceptable());
        }
        let html = listing::html(directory, &target.path)?;
        let mut response = Response::new(FileBody::text(html));
        insert(response.headers_mut(), CONTENT_TYPE, "text/html; charset=utf-8");
        Ok(response)
    }

    fn file<B>(
        &self,
        path: &str,
        plain: (File, Metadata),
        request: &Request<B>,
    ) -> io::Result<Response<FileBody>> {
        let content_type = content_type(path);
        let mut plain = Some(plain);
        for encoding in encodings::accepted(request.headers()) {
            let (file, metadata) = match encoding {
                Some(encoding) => {
                    let Ok(file) = self.root.file(&format!("{path}{}", encoding.suffix)) else { continue };
                    let metadata = file.metadata()?;
                    (file, metadata)
                }
                None => match plain.take() {
                    Some(plain) => plain,
                    None => continue,
                },
            };
            if metadata.is_file() {
                let encoding = encoding.map(|encoding| encoding.name);
                return send(Found { file, metadata, encoding, content_type }, request);
            }
        }
        Ok(not_acceptable())
    }
}

/// Answers a client that accepts no form of what there is (RFC 9110 section 12.5.3).
fn not_acceptable() -> Response<FileBody> {
    let mut response = status(StatusCode::NOT_ACCEPTABLE);
    insert(response.headers_mut(), VARY, "accept-encoding");
    response
}

fn send<B>(found: Found, request: &Request<B>) -> io::Result<Response<FileBody>> {
    let headers = request.headers();
    let len = found.metadata.len();
    let variant = found.encoding.map_or(String::new(), |name| format!("-{name}"));
    let validators = Validators::new(Times::of(&found.metadata), len, &variant);
    let outcome = conditions::evaluate(headers, &validators);
    let (encoding, content_type) = (found.encoding, found.content_type.clone());
    let mut response = match outcome {
        Outcome::Failed => return Ok(status(StatusCode::PRECONDITION_FAILED)),
        Outcome::NotModified => {
            let mut response = Response::new(FileBody::text(""));
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        }
        // Ranges are defined for GET alone (RFC 9110 section 14.2).
        Outcome::Send if request.method() != Method::GET => content(found, Part::Whole, len),
        Outcome::Send => content(found, conditions::part(headers, &validators, len), len),
    };
    let to = response.headers_mut();
    insert(to, ETAG, &validators.etag);
    insert(to, LAST_MODIFIED, &httpdate::fmt_http_date(validators.modified));
    insert(to, VARY, "accept-encoding");
    if outcome != Outcome::Send {
        return Ok(response);
    }
    insert(to, ACCEPT_RANGES, "bytes");
    // Several ranges and errors have a type of their own.
    if !to.contains_key(CONTENT_TYPE) {
        insert(to, CONTENT_TYPE, &content_type);
        insert(to, X_CONTENT_TYPE_OPTIONS, "nosniff");
        if let Some(encoding) = encoding {
            insert(to, CONTENT_ENCODING, encoding);
        }
    }
    Ok(response)
}

fn content(found: Found, part: Part, len: u64) -> Response<FileBody> {
    match part {
        Part::Range(range) => {
            let mut response = Response::new(FileBody::file(found.file, range.first, range.len()));
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            insert(response.headers_mut(), CONTENT_RANGE, &content_range(range, len));
            response
        }
        // Content-Encoding would be said of the parts and of what separates them.
        Part::Ranges(ranges) if found.encoding.is_none() => multipart(found, &ranges, len),
        Part::Whole | Part::Ranges(_) => Response::new(FileBody::file(found.file, 0, len)),
        Part::Unsatisfiable => {
            let mut response = status(StatusCode::RANGE_NOT_SATISFIABLE);
            insert(response.headers_mut(), CONTENT_RANGE, &format!("bytes */{len}"));
            response
        }
    }
}

fn content_range(range: Range, len: u64) -> String {
    format!("bytes {}-{}/{len}", range.first, range.last)
}

/// Answers with several ranges (RFC 9110 section 14.6).
fn multipart(found: Found, ranges: &[Range], len: u64) -> Response<FileBody> {
    // Random, so that no file contains it.
    let boundary = format!("{:016x}{:016x}", random(), random());
    let mut parts = Vec::with_capacity(2 * ranges.len() + 1);
    let mut line_end = "";
    for range in ranges {
        let (content_type, range_text) = (&found.content_type, content_range(*range, len));
        parts.push(body::Part::Text(
            format!(
                "{line_end}--{boundary}\r\nContent-Type: {content_type}\r\nContent-Range: {range_text}\r\n\r\n"
            )
            .into(),
        ));
        parts.push(body::Part::File { at: range.first, len: range.len() });
        line_end = "\r\n";
    }
    parts.push(body::Part::Text(format!("\r\n--{boundary}--\r\n").into()));
    let mut response = Response::new(FileBody::parts(found.file, parts));
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    insert(response.headers_mut(), CONTENT_TYPE, &format!("multipart/byteranges; boundary={boundary}"));
    response
}

fn random() -> u64 {
    RandomState::new().hash_one(())
}

/// Redirects to a directory's own path, below this server whatever the target began with.
fn redirect(path: &str, query: Option<&str>) -> Response<FileBody> {
    let encoded: Vec<String> = path.split('/').map(path::encode).collect();
    let query = query.map_or(String::new(), |query| format!("?{query}"));
    let mut response = status(StatusCode::PERMANENT_REDIRECT);
    insert(response.headers_mut(), LOCATION, &format!("/{}/{query}", encoded.join("/")));
    response
}

/// Answers where a file can't be opened. What the path itself causes is no failure of the server.
fn failure(error: &io::Error) -> Response<FileBody> {
    status(match Errno::from_io_error(error) {
        Some(Errno::ACCESS | Errno::PERM) => StatusCode::FORBIDDEN,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => StatusCode::SERVICE_UNAVAILABLE,
        Some(
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::NAMETOOLONG
            | Errno::INVAL
            // Symbolic links that go round in a circle, or out of the directory.
            | Errno::LOOP
            | Errno::XDEV
            // Sockets and devices.
            | Errno::NXIO
            | Errno::NODEV,
        ) => StatusCode::NOT_FOUND,
        _ => {
            tracing::debug!(%error, "a file can't be opened");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    })
}

/// A response with a status alone.
pub(crate) fn status(status: StatusCode) -> Response<FileBody> {
    let mut response = Response::new(FileBody::text(format!("{status}\n")));
    *response.status_mut() = status;
    insert(response.headers_mut(), CONTENT_TYPE, "text/plain; charset=utf-8");
    response
}

/// Inserts a header. Values are made of ASCII here; any other would be left out.
fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// Returns the media type by a file name's extension. Text is UTF-8.
fn content_type(path: &str) -> String {
    let guessed = mime_guess::from_path(path).first_or_octet_stream();
    let is_text = guessed.type_() == "text" || matches!(guessed.subtype().as_str(), "javascript" | "json");
    if is_text {
        format!("{}; charset=utf-8", guessed.essence_str())
    } else {
        guessed.essence_str().to_owned()
    }
}

#[cfg(test)]
mod tests;
