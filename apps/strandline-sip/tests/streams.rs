//! Stream framing, and the classification of datagrams: RFC 3261 sections 7.5 and 18.3, RFC 5626 section 4.4,
//! and RFC 4475 on framing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use proptest::prelude::*;
use strandline_sip::codec::{
    Cut, Datagram, ErrorKind, HeaderName, Index, Limits, Message, Side, StreamFramer,
};

/// The items of a stream: messages and keep-alives.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Out {
    Message(Vec<u8>),
    Ping,
    Pong,
    Error(ErrorKind, u32),
}

/// Feeds a stream in pieces that end at `ends`.
fn cut_at(side: Side, stream: &[u8], ends: impl IntoIterator<Item = usize>) -> Vec<Out> {
    let mut framer = StreamFramer::new(side, Limits::default());
    let (mut buffer, mut fed, mut out) = (Vec::new(), 0, Vec::new());
    for end in ends.into_iter().chain([stream.len()]) {
        buffer.extend_from_slice(&stream[fed..end]);
        fed = end;
        loop {
            let len = match framer.cut(&buffer) {
                Ok(Cut::Incomplete) => break,
                Ok(Cut::Message { len }) => {
                    out.push(Out::Message(buffer[..len].to_vec()));
                    len
                }
                Ok(Cut::Ping { len }) => {
                    out.push(Out::Ping);
                    len
                }
                Ok(Cut::Pong { len }) => {
                    out.push(Out::Pong);
                    len
                }
                Ok(Cut::Blank { len }) => len,
                Err(error) => {
                    out.push(Out::Error(error.kind, error.offset));
                    return out;
                }
            };
            buffer.drain(..len);
        }
    }
    out
}

const A: &[u8] =
    b"BYE sip:a.example SIP/2.0\r\nVia: SIP/2.0/TCP b\r\nContent-Length : \r\n 4\r\nX: y\r\n\r\nbody";
const B: &[u8] = b"SIP/2.0 200 OK\r\nl:0\r\nSubject: a\r\n\tfolded\r\n\r\n";

#[test]
fn messages_and_pings_come_out_in_order() {
    let stream = [b"\r\n", A, b"\r\n\r\n", B, B, b"\r\n\r\n\r\n\r\n\r\n", A, b"\r\n"].concat();
    let (a, b) = (Out::Message(A.to_vec()), Out::Message(B.to_vec()));
    let expected = [a.clone(), Out::Ping, b.clone(), b, Out::Ping, Out::Ping, a];
    assert_eq!(cut_at(Side::Accepted, &stream, []), expected);
    assert_eq!(cut_at(Side::Accepted, &stream, 1..stream.len()), expected);
}

#[test]
fn the_side_that_opened_gets_pongs() {
    let stream = [b"\r\n", A, b"\r\n\r\n", B].concat();
    let (a, b) = (Out::Message(A.to_vec()), Out::Message(B.to_vec()));
    assert_eq!(cut_at(Side::Opened, &stream, []), [Out::Pong, a, Out::Pong, Out::Pong, b]);
}

#[test]
fn what_cannot_be_framed_ends_the_stream() {
    let limits = Limits::default();
    let head = |length: &str| format!("BYE sip:a SIP/2.0\r\nl: {length}\r\n\r\n").into_bytes();
    let cases: [(Vec<u8>, ErrorKind); 10] = [
        (b"BYE sip:a SIP/2.0\r\nVia: SIP/2.0/TCP a\r\n\r\n".to_vec(), ErrorKind::Missing),
        (head("five"), ErrorKind::Number),
        (head("-999"), ErrorKind::Number),
        (head("1 1"), ErrorKind::Trailing),
        (head(""), ErrorKind::Number),
        (head("99999999999999999999"), ErrorKind::TooLarge),
        (head(&(limits.body_bytes_max + 1).to_string()), ErrorKind::BodyTooLong),
        (b"BYE sip:a SIP/2.0\r\nl: 1\r\nContent-Length: 1\r\n\r\n".to_vec(), ErrorKind::Repeated),
        (b"BYE sip:a SIP/2.0\nl: 1\n\n".to_vec(), ErrorKind::LineEnd),
        (b"BYE sip:a SIP/2.0\r\nl: 1\rx\r\n\r\n".to_vec(), ErrorKind::LineEnd),
    ];
    for (stream, kind) in cases {
        let out = cut_at(Side::Accepted, &stream, []);
        assert!(matches!(out[..], [Out::Error(found, _)] if found == kind), "{out:?} for {kind:?}");
    }
    let endless = [b"BYE sip:a SIP/2.0\r\nX: ".to_vec(), vec![b'x'; limits.header_bytes_max]].concat();
    let out = cut_at(Side::Accepted, &endless, (0..endless.len()).step_by(100));
    assert_eq!(out, [Out::Error(ErrorKind::HeadersTooLong, limits.header_bytes_max as u32)]);
}

/// A request without a length gets a response before its connection is closed.
#[test]
fn request_ending_its_stream_is_answered() {
    let received = b"BYE sip:a SIP/2.0\r\nVia: SIP/2.0/TCP a\r\nContent-Length: five\r\n\r\n";
    let mut framer = StreamFramer::new(Side::Accepted, Limits::default());
    let error = framer.cut(received).unwrap_err();
    assert_eq!((error.header, error.status().code()), (Some(HeaderName::ContentLength), 400));
    let mut index = Index::new();
    let rejected = Message::parse(received, &mut index).unwrap_err();
    assert!(rejected.answerable().is_some());
}

#[test]
fn body_is_awaited_to_its_last_byte() {
    let mut framer = StreamFramer::new(Side::Accepted, Limits::default());
    assert_eq!(framer.cut(&A[..A.len() - 4]).unwrap(), Cut::Incomplete);
    assert_eq!(framer.missing(A.len() - 4), 4);
    assert_eq!(framer.cut(&A[..A.len() - 1]).unwrap(), Cut::Incomplete);
    assert_eq!(framer.missing(A.len() - 1), 1);
    assert_eq!(framer.cut(&[A, b"BYE"].concat()).unwrap(), Cut::Message { len: A.len() });
}

#[test]
fn datagrams_are_told_apart() {
    let mut stun = [0; 20];
    stun[4..8].copy_from_slice(&[0x21, 0x12, 0xa4, 0x42]);
    for (bytes, kind) in [
        (&b""[..], Datagram::KeepAlive),
        (b"\r\n\r\n", Datagram::KeepAlive),
        (b"\0\0\0\0", Datagram::KeepAlive),
        (b"\r\n\r\nBYE", Datagram::Sip),
        (b"!odd sip:a SIP/2.0\r\n", Datagram::Sip),
        (&stun, Datagram::Stun),
        (&stun[..19], Datagram::Sip),
    ] {
        assert_eq!(Datagram::of(bytes), kind, "{}", bytes.escape_ascii());
    }
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(A.to_vec()),
        Just(B.to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\r\n\r\n".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(|body| {
            let head = format!("INVITE sip:a SIP/2.0\r\nContent-Length: {}\r\n\r\n", body.len());
            [head.into_bytes(), body].concat()
        }),
        Just(b"BYE sip:a SIP/2.0\r\nl: x\r\n\r\n".to_vec()),
        Just(b"BYE sip:a SIP/2.0\r\n\n".to_vec()),
    ]
}

proptest! {
    /// The items don't depend on how the stream is split.
    #[test]
    fn splits_change_nothing(
        pieces in proptest::collection::vec(piece(), 0..8),
        mut ends in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
        opened in any::<bool>(),
    ) {
        let side = if opened { Side::Opened } else { Side::Accepted };
        let stream = pieces.concat();
        let whole = cut_at(side, &stream, []);
        let mut places: Vec<usize> = ends.drain(..).map(|end| end.index(stream.len() + 1)).collect();
        places.sort_unstable();
        prop_assert_eq!(&cut_at(side, &stream, places), &whole);
        prop_assert_eq!(&cut_at(side, &stream, 0..stream.len()), &whole);
    }

    /// A message from a stream is parsed like the same bytes in a datagram.
    #[test]
    fn what_is_cut_is_parsed(pieces in proptest::collection::vec(piece(), 0..8)) {
        for out in cut_at(Side::Accepted, &pieces.concat(), []) {
            if let Out::Message(bytes) = out {
                let mut index = Index::new();
                let message = Message::parse(&bytes, &mut index).unwrap();
                prop_assert_eq!(message.as_bytes(), &bytes[..]);
            }
        }
    }
}
