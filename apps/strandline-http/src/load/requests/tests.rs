use hyper::StatusCode;

use super::*;

#[test]
fn requests_count_what_is_written() {
    let url = Url::parse("http+sctp://example.com:8080/a?b=c").unwrap();
    let header = ("x-one".parse().unwrap(), "two".parse().unwrap());
    let prepared = Prepared::new(&url, &[header], false, false).unwrap();
    let user_agent = concat!("strandline/", env!("CARGO_PKG_VERSION"));
    let text = format!(
        "GET /a?b=c HTTP/1.1\r\nhost: example.com:8080\r\nuser-agent: {user_agent}\r\nconnection: close\r\n\
         x-one: two\r\n\r\n"
    );
    assert_eq!(prepared.bytes, text.len() as u64);
    assert_eq!(prepared.request().uri(), "/a?b=c");
    let http2 = Prepared::new(&Url::parse("http://example.com").unwrap(), &[], true, true).unwrap();
    assert_eq!(http2.request().uri(), "http://example.com/");
    assert!(http2.request().headers().get(HOST).is_none());
}

#[test]
fn heads_count_as_in_the_first_version() {
    let mut response = Response::new(());
    response.headers_mut().insert("content-length", HeaderValue::from_static("5"));
    assert_eq!(head_bytes(&response), "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n".len() as u64);
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.extensions_mut().insert(ReasonPhrase::from_static(b"Gone fishing"));
    response.headers_mut().clear();
    assert_eq!(head_bytes(&response), "HTTP/1.1 404 Gone fishing\r\n\r\n".len() as u64);
}
