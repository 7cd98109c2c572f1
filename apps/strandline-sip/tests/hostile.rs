//! Hostile messages: long, numerous, nested or binary input. Each is handled with a definite result, and
//! later accesses don't panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use proptest::prelude::*;
use strandline_sip::codec::{
    Address, Auth, Element, ErrorKind, HeaderName, Host, Index, Limits, Message, RetryAfter, StartLine,
    Transport, Uri, Via,
};

fn message(headers: &[u8]) -> Vec<u8> {
    [b"OPTIONS sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP c;branch=z9hG4bK1\r\n", headers, b"\r\n"].concat()
}

/// The error of a message, its status code, and whether it can be answered. The index must not exceed its
/// limit.
fn refused(bytes: &[u8]) -> (ErrorKind, u16, bool) {
    let mut index = Index::new();
    let rejected = Message::parse(bytes, &mut index).expect_err("an error");
    (rejected.error.kind, rejected.error.status().code(), rejected.answerable().is_some())
}

#[test]
fn a_header_of_64_kilobytes() {
    let long = |len: usize| message(&[b"Subject: ", &b"x".repeat(len)[..], b"\r\n"].concat());
    let mut index = Index::new();
    let bytes = long(64_000);
    let found = Message::parse(&bytes, &mut index).unwrap();
    assert_eq!(found.lines(HeaderName::Subject).next().unwrap().value().len(), 64_000);
    assert_eq!(refused(&long(66_000)), (ErrorKind::HeadersTooLong, 513, true));
    let name = message(&[&b"x".repeat(66_000)[..], b": y\r\n"].concat());
    assert_eq!(refused(&name), (ErrorKind::HeadersTooLong, 513, true));
    let uri = [b"BYE sip:", &b"a".repeat(100_000)[..], b" SIP/2.0\r\nVia: SIP/2.0/UDP c\r\n\r\n"].concat();
    assert_eq!(refused(&uri).0, ErrorKind::HeadersTooLong);
}

#[test]
fn ten_thousand_vias() {
    let vias = message(&b"Via: SIP/2.0/UDP d;branch=z9hG4bK2\r\n".repeat(10_000));
    assert_eq!(refused(&vias), (ErrorKind::TooManyHeaders, 513, true));
    let short = message(&b"v:SIP/2.0/UDP d\r\n".repeat(300));
    assert_eq!(refused(&short), (ErrorKind::TooManyHeaders, 513, true));
    // Values in one line count as one line, and are only traversed on request.
    let listed = message(&[b"Via: SIP/2.0/UDP d", &b",SIP/2.0/UDP d".repeat(4_000)[..], b"\r\n"].concat());
    let mut index = Index::new();
    let found = Message::parse(&listed, &mut index).unwrap();
    assert_eq!(found.vias().map(Result::unwrap).count(), 4_002);
    let limits = Limits { header_lines_max: 100_000, header_bytes_max: 1 << 20, ..Limits::default() };
    let mut wide = Index::with_limits(limits);
    let found = Message::parse(&vias, &mut wide).unwrap();
    assert_eq!(found.vias().map(Result::unwrap).count(), 10_001);
    assert_eq!(found.via().unwrap().branch_id(), Some(&b"1"[..]));
}

#[test]
fn nests_and_quotes() {
    let deep = [&b"5 "[..], &b"(".repeat(30_000), &b")".repeat(30_000)].concat();
    assert_eq!(RetryAfter::parse(&deep).unwrap().comment.unwrap().len(), 59_998);
    assert_eq!(RetryAfter::parse(&deep[..59_000]).unwrap_err().kind, ErrorKind::Comment);
    assert_eq!(RetryAfter::parse(b"5 (\\)").unwrap_err().kind, ErrorKind::Comment);
    let escapes = [&b"\""[..], &b"\\\"".repeat(30_000), b"\" <sip:a>"].concat();
    assert_eq!(Address::parse(&escapes).unwrap().display.unwrap().len(), 60_002);
    assert_eq!(Address::parse(&escapes[..50_000]).unwrap_err().kind, ErrorKind::Quoted);
    assert_eq!(Address::parse(b"\"\\").unwrap_err().kind, ErrorKind::Quoted);
    assert_eq!(Address::parse(b"\"a\\\r\n b\" <sip:a>").unwrap_err().kind, ErrorKind::Quoted);
    let params = [&b"<sip:a>"[..], &b";a=b".repeat(16_000)].concat();
    assert_eq!(Address::parse(&params).unwrap().params.iter().count(), 16_000);
    let many = [&b"Digest a=b"[..], &b",a=\"b\"".repeat(10_000)].concat();
    assert_eq!(Auth::parse(&many).unwrap().params.iter().count(), 10_001);
}

#[test]
fn binary_in_headers() {
    assert_eq!(refused(&message(b"Subject: a\0b\r\n")), (ErrorKind::Control, 400, true));
    assert_eq!(
        refused(&message(&[b"X: ", &b"\0".repeat(60_000)[..], b"\r\n"].concat())).0,
        ErrorKind::Control
    );
    assert_eq!(refused(&message(b"Su\0bject: a\r\n")), (ErrorKind::Control, 400, true));
    assert_eq!(refused(&message(b"Max\rForwards: 1\r\n")).0, ErrorKind::LineEnd);
    assert_eq!(refused(&message(b"\xff\xfe: a\r\n")), (ErrorKind::HeaderName, 400, true));
    assert_eq!(refused(&message(b": a\r\n")), (ErrorKind::HeaderName, 400, true));
    assert_eq!(refused(&message(b"a b: c\r\n")), (ErrorKind::HeaderName, 400, true));
    assert_eq!(refused(&message(b"X: a\nY: b\r\n")).0, ErrorKind::LineEnd);
    assert_eq!(refused(&message(b"X: a\rY: b\r\n")).0, ErrorKind::LineEnd);
    // Invalid UTF-8 passes through in text that isn't interpreted.
    let bytes = message(b"Subject: \xff\xfe\x80\r\nFrom: \"\xc3\x28\" <sip:a>\r\n");
    let mut index = Index::new();
    let found = Message::parse(&bytes, &mut index).unwrap();
    assert_eq!(found.from().unwrap().unwrap().display, Some(&b"\"\xc3\x28\""[..]));
    assert!(Uri::parse(b"sip:\xc3\xa9@b").is_err());
}

#[test]
fn numbers_without_end() {
    let digits = "9".repeat(60_000);
    let bytes = message(
        format!("CSeq: {digits} OPTIONS\r\nExpires: {digits}\r\nMax-Forwards: {digits}\r\n").as_bytes(),
    );
    let mut index = Index::new();
    let found = Message::parse(&bytes[..], &mut index);
    assert_eq!(found.unwrap_err().error.kind, ErrorKind::HeadersTooLong);
    let digits = "9".repeat(10_000);
    let bytes = message(
        format!("CSeq: {digits} OPTIONS\r\nExpires: {digits}\r\nMax-Forwards: {digits}\r\n").as_bytes(),
    );
    let found = Message::parse(&bytes, &mut index).unwrap();
    assert_eq!(found.cseq().unwrap_err().kind, ErrorKind::TooLarge);
    assert_eq!(found.expires().unwrap_err().kind, ErrorKind::TooLarge);
    assert_eq!(found.max_forwards().unwrap_err().kind, ErrorKind::TooLarge);
    assert_eq!(refused(&message(format!("l: {digits}\r\n").as_bytes())), (ErrorKind::TooLarge, 400, true));
    assert_eq!(refused(&message(b"l: 4294967295\r\n")), (ErrorKind::BodyTruncated, 400, true));
}

#[test]
fn what_is_no_sip_is_not_answered() {
    for bytes in [
        &b""[..],
        b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"SIP/2.0 999 Odd\r\nVia: SIP/2.0/UDP a\r\n\r\n",
        b"SIP/2.0 20 Odd\r\nVia: SIP/2.0/UDP a\r\n\r\n",
        b"SIP/3.0 200 OK\r\nVia: SIP/2.0/UDP a\r\n\r\n",
        b"OPTIONS sip:a SIP/2.0",
        b"OPTIONS\r\n\r\n",
        b"ACK sip:a SIP/2.0\r\nVia: SIP/2.0/UDP a\r\nx\r\n\r\n",
        b"OPTIONS sip:a SIP/2.0\r\nVia: rubbish\r\nx\r\n\r\n",
        b"OPTIONS sip:a SIP/2.0\r\nx\r\n\r\n",
    ] {
        assert!(!refused(bytes).2, "{}", bytes.escape_ascii());
    }
    assert_eq!(refused(b"\r\n\r\n").0, ErrorKind::Empty);
    assert_eq!(refused(b"OPTIONS sip:a SIP/2.0\r\nVia: SIP/2.0/UDP a\r\n").0, ErrorKind::HeadersUnterminated);
    assert_eq!(
        refused(b"OPTIONS sip:a SIP/2.0\r\nVia: SIP/2.0/UDP a\r\n\r").0,
        ErrorKind::HeadersUnterminated
    );
}

/// Headers after a malformed line are still found, so that the response is complete.
#[test]
fn an_answer_has_the_headers_after_the_fault() {
    let bytes =
        b"BYE sip:a SIP/2.0\r\nno colon\r\nVia: SIP/2.0/UDP a\r\nCall-ID: c\r\nX: \0\r\nCSeq: 1 BYE\r\n\r\n";
    let mut index = Index::new();
    let rejected = Message::parse(bytes, &mut index).unwrap_err();
    assert_eq!((rejected.error.kind, rejected.error.offset), (ErrorKind::HeaderName, 19));
    let found = rejected.answerable().unwrap();
    assert_eq!(found.via().unwrap().transport, Transport::Udp);
    assert_eq!(found.call_id().unwrap().unwrap().0, b"c");
    assert_eq!(found.cseq().unwrap().unwrap().number, 1);
}

fn everything(bytes: &[u8]) {
    let mut index = Index::new();
    let found = match Message::parse(bytes, &mut index) {
        Ok(message) => Some(message),
        Err(rejected) => rejected.answerable(),
    };
    let _ = (StartLine::parse(bytes), Uri::parse(bytes), Host::parse(bytes), Via::parse(bytes));
    let _ = (Address::parse(bytes), Auth::parse(bytes));
    let Some(found) = found else { return };
    let _ = (found.essentials(), found.contacts().map(Iterator::count), found.date(), found.event());
    let _ = found.vias().count() + found.routes().count() + found.warnings().count() + found.accept().count();
    for header in found.headers() {
        assert!(header.line().len() >= header.name_bytes().len() + header.value().len());
    }
}

const TORN: [&[u8]; 4] = [
    include_bytes!("torture/rfc4475/wsinv.dat"),
    include_bytes!("torture/rfc4475/intmeth.dat"),
    include_bytes!("torture/rfc4475/mpart01.dat"),
    include_bytes!("torture/rfc4475/regescrt.dat"),
];

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        everything(&bytes);
    }

    /// Messages with some bytes changed, or truncated.
    #[test]
    fn torn_messages_are_read_without_panic(
        which in 0..TORN.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        end in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        let mut bytes = TORN[which].to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            // Half of the changes insert a separator.
            bytes[at] = if byte < 128 { b" \t\r\n;,:=\"\\<>@?%&"[usize::from(byte % 16)] } else { byte };
        }
        let end = if whole { bytes.len() } else { end.index(bytes.len()) };
        everything(&bytes[..end]);
    }
}
