use super::{HEAD_MAX, Parsed, failure, parse, status};
use crate::protocol::Reason;

#[test]
fn targets_of_requests_are_read() {
    let head = b"CONNECT db.example:5432 HTTP/1.1\r\nHost: db.example:5432\r\n\r\nfirst bytes";
    assert_eq!(parse(head), Parsed::Whole("db.example:5432".parse().unwrap(), head.len() - 11));
    assert_eq!(parse(&head[..40]), Parsed::Partial);
}

#[test]
fn other_requests_are_refused() {
    let refused = |bytes: &[u8]| match parse(bytes) {
        Parsed::Wrong(status, _) => status,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(b"GET / HTTP/1.1\r\n\r\n"), 405);
    assert_eq!(refused(b"CONNECT db.example HTTP/1.1\r\n\r\n"), 400);
    assert_eq!(refused(b"\x05\x01\x00"), 400);
    let mut long = b"CONNECT a:1 HTTP/1.1\r\nx: ".to_vec();
    long.resize(HEAD_MAX, b'y');
    assert_eq!(refused(&long), 431);
}

#[test]
fn reasons_have_a_status_and_a_text() {
    assert_eq!(status(Reason::NotAllowed), 403);
    assert_eq!(status(Reason::TimedOut), 504);
    assert_eq!(status(Reason::Refused), 502);
    let answer = String::from_utf8(failure(502, "connection refused")).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    assert!(
        answer.contains("Content-Length: 19\r\n") && answer.ends_with("\r\n\r\nconnection refused\n"),
        "{answer}"
    );
}
