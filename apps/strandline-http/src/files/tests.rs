use std::fs;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use hyper::Version;
use hyper::body::Body;
use hyper::header::{ACCEPT_ENCODING, CONTENT_LENGTH, HOST, IF_NONE_MATCH, RANGE};

use super::testing::Folder;
use super::*;

fn site() -> (Folder, Files) {
    let folder = Folder::new("site");
    let write = |name: &str, content: &str| fs::write(folder.path().join(name), content).unwrap();
    fs::create_dir_all(folder.path().join("sub/empty")).unwrap();
    write("index.html", "<h1>hello</h1>");
    write("style.css", "plain");
    write("style.css.br", "brotli");
    write("style.css.gz", "gzip");
    write("sub/<&>.txt", "text");
    write(".secret", "hidden");
    let files = Files::open(folder.path(), true).unwrap();
    (folder, files)
}

fn get(files: &Files, path: &str, headers: &[(HeaderName, &str)]) -> Response<FileBody> {
    let mut request = Request::get(path).header(HOST, "example.com");
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    files.answer(&request.body(()).unwrap())
}

fn body(response: Response<FileBody>) -> String {
    let mut body = response.into_body();
    let mut text = Vec::new();
    let context = &mut Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(frame)) = Pin::new(&mut body).poll_frame(context) {
        text.extend_from_slice(&frame.unwrap().into_data().unwrap());
    }
    String::from_utf8(text).unwrap()
}

fn header(response: &Response<FileBody>, name: HeaderName) -> &str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[test]
fn directories_are_served_by_their_index() {
    let (_folder, files) = site();
    let response = get(&files, "/", &[]);
    assert_eq!(response.status(), 200);
    assert_eq!(header(&response, CONTENT_TYPE), "text/html; charset=utf-8");
    assert_eq!(response.body().size_hint().exact(), Some(14));
    assert_eq!(body(response), "<h1>hello</h1>");
}

#[test]
fn directories_without_an_index_are_listed() {
    let (folder, files) = site();
    let html = body(get(&files, "/sub/", &[]));
    assert!(html.contains("<a href=\"./%3C%26%3E.txt\">&lt;&amp;&gt;.txt</a>"), "{html}");
    assert!(html.contains("<a href=\"./empty/\">empty/</a>"), "{html}");
    let silent = Files::open(folder.path(), false).unwrap();
    assert_eq!(get(&silent, "/sub/", &[]).status(), 404);
}

#[test]
fn directories_without_a_slash_are_redirected() {
    let (_folder, files) = site();
    let response = get(&files, "//sub?a=b", &[]);
    assert_eq!((response.status().as_u16(), header(&response, LOCATION)), (308, "/sub/?a=b"));
}

#[test]
fn precompressed_files_are_preferred() {
    let (_folder, files) = site();
    for (accepted, encoding, text) in
        [("gzip, br", "br", "brotli"), ("zstd, gzip", "gzip", "gzip"), ("identity", "", "plain")]
    {
        let response = get(&files, "/style.css", &[(ACCEPT_ENCODING, accepted)]);
        assert_eq!(header(&response, CONTENT_ENCODING), encoding);
        assert_eq!(header(&response, CONTENT_TYPE), "text/css; charset=utf-8");
        assert_eq!(header(&response, VARY), "accept-encoding");
        assert_eq!(body(response), text);
    }
}

fn bare(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag)
}

#[test]
fn ranges_and_conditions_are_answered() {
    let (_folder, files) = site();
    let part = get(&files, "/style.css", &[(RANGE, "bytes=1-3")]);
    assert_eq!((part.status().as_u16(), header(&part, CONTENT_RANGE)), (206, "bytes 1-3/5"));
    let etag = header(&part, ETAG).to_owned();
    assert_eq!(body(part), "lai");
    let beyond = get(&files, "/style.css", &[(RANGE, "bytes=9-")]);
    assert_eq!((beyond.status().as_u16(), header(&beyond, CONTENT_RANGE)), (416, "bytes */5"));
    let same = get(&files, "/style.css", &[(IF_NONE_MATCH, &etag)]);
    // It becomes a strong one after a second.
    assert_eq!((same.status().as_u16(), bare(header(&same, ETAG))), (304, bare(&etag)));
    assert_eq!(header(&same, CONTENT_LENGTH), "");
    let brotli = get(&files, "/style.css", &[(IF_NONE_MATCH, &etag), (ACCEPT_ENCODING, "br")]);
    assert_eq!(brotli.status(), 200, "an encoding has an entity tag of its own");
}

#[test]
fn several_ranges_are_parts_of_one_response() {
    let (_folder, files) = site();
    let parts = get(&files, "/style.css", &[(RANGE, "bytes=0-1,4-")]);
    assert_eq!(parts.status(), 206);
    let kind = header(&parts, CONTENT_TYPE).to_owned();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let part = |range: &str, text: &str| {
        format!(
            "--{boundary}\r\nContent-Type: text/css; charset=utf-8\r\nContent-Range: bytes {range}/5\r\n\r\n{text}\r\n"
        )
    };
    let len = parts.body().size_hint().exact().unwrap();
    let wanted = format!("{}{}--{boundary}--\r\n", part("0-1", "pl"), part("4-4", "n"));
    assert_eq!(body(parts), wanted);
    assert_eq!(len, wanted.len() as u64);
    let encoded = get(&files, "/style.css", &[(RANGE, "bytes=0-1,4-"), (ACCEPT_ENCODING, "br")]);
    assert_eq!((encoded.status().as_u16(), body(encoded).as_str()), (200, "brotli"));
}

#[test]
fn head_has_no_ranges() {
    let (_folder, files) = site();
    let head = Request::head("/style.css").header(HOST, "a").header(RANGE, "bytes=1-3").body(()).unwrap();
    let response = files.answer(&head);
    assert_eq!((response.status().as_u16(), response.body().size_hint().exact()), (200, Some(5)));
}

#[test]
fn what_is_not_served_is_not_found() {
    let (_folder, files) = site();
    for path in
        ["/none", "/.secret", "/style.css/", "/sub/../.secret", "/%2e%2e/%2e%2e/etc/passwd", "/sub/empty/x"]
    {
        assert_eq!(get(&files, path, &[]).status(), 404, "{path}");
    }
}

#[test]
fn other_methods_are_not_allowed() {
    let (_folder, files) = site();
    for method in ["POST", "PUT", "DELETE", "CONNECT", "TRACE"] {
        let request = Request::builder().method(method).uri("/").header(HOST, "a").body(()).unwrap();
        let response = files.answer(&request);
        assert_eq!((response.status().as_u16(), header(&response, ALLOW)), (405, "GET, HEAD, OPTIONS"));
    }
}

#[test]
fn requests_need_exactly_one_host() {
    let (_folder, files) = site();
    assert_eq!(files.answer(&Request::get("/").body(()).unwrap()).status(), 400);
    assert_eq!(get(&files, "/", &[(HOST, "another")]).status(), 400);
    let old = Request::get("/").version(Version::HTTP_10).body(()).unwrap();
    assert_eq!(files.answer(&old).status(), 200);
}

#[test]
fn a_file_that_shrinks_is_an_error() {
    let (folder, files) = site();
    let response = get(&files, "/style.css", &[]);
    fs::write(folder.path().join("style.css"), "p").unwrap();
    let mut body = response.into_body();
    let frame = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(frame, Poll::Ready(Some(Err(_)))));
}

/// The length was announced: a body that ends early could be taken for a whole one.
#[test]
fn files_that_become_shorter_fail_in_mid_body() {
    let (folder, files) = site();
    let path = folder.path().join("long");
    fs::write(&path, vec![b'x'; 200_000]).unwrap();
    let mut body = get(&files, "/long", &[]).into_body();
    let context = &mut Context::from_waker(Waker::noop());
    let Poll::Ready(Some(Ok(first))) = Pin::new(&mut body).poll_frame(context) else { panic!("no frame") };
    assert!(first.into_data().unwrap().iter().all(|byte| *byte == b'x'));
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100_000).unwrap();
    let mut received = 0;
    let end = loop {
        match Pin::new(&mut body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => received += frame.into_data().unwrap().len(),
            other => break other,
        }
    };
    assert!(matches!(end, Poll::Ready(Some(Err(_)))), "{received}");
    assert!(matches!(Pin::new(&mut body).poll_frame(context), Poll::Ready(None)));
}

#[test]
fn failures_of_the_server_are_no_missing_files() {
    for (error, wanted) in [
        (Errno::NOENT, 404),
        (Errno::NOTDIR, 404),
        (Errno::LOOP, 404),
        (Errno::ACCESS, 403),
        (Errno::MFILE, 503),
        (Errno::IO, 500),
        (Errno::STALE, 500),
    ] {
        assert_eq!(failure(&error.into()).status(), wanted, "{error}");
    }
}
