use super::*;

/// Feeds bytes in pieces of every size, and returns what is refused.
fn verdict(bytes: &[u8]) -> Option<Stop> {
    let verdicts: Vec<Option<Stop>> = (1..=bytes.len())
        .map(|size| {
            let mut framing = Framing::new();
            let mut before = 0;
            for piece in bytes.chunks(size) {
                match framing.feed(piece) {
                    Some(Stop::Head(last)) => return Some(Stop::Head(before + last)),
                    Some(Stop::Body(first)) => return Some(Stop::Body(before + first)),
                    Some(Stop::Undecided(first)) => return Some(Stop::Undecided(before + first)),
                    None => before += piece.len(),
                }
            }
            None
        })
        .collect();
    assert!(verdicts.iter().all(|verdict| *verdict == verdicts[0]), "{verdicts:?}");
    verdicts[0]
}

/// Returns where the refused head ends.
fn refused(bytes: &[u8]) -> Option<usize> {
    match verdict(bytes) {
        Some(Stop::Head(last)) => Some(last + 1),
        Some(Stop::Body(first)) => panic!("the body is refused at {first}"),
        other => {
            assert_eq!(other, None);
            None
        }
    }
}

/// hyper takes a bare LF for a line end in heads, and not elsewhere: a message would end at different places.
#[test]
fn lines_end_by_crlf_alone() {
    let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let head = |text: &str| (text.to_owned(), Stop::Head(text.len() - 1));
    let body = |text: &str| {
        let text = format!("{chunked}{text}");
        let at = text.len() - 1;
        (text, Stop::Body(at))
    };
    for (text, wanted) in [
        head("\n"),
        head("GET / HTTP/1.1\n"),
        head("GET / HTTP/1.1\r\nHost: a\n"),
        head("GET / HTTP/1.1\r\nHost: a\r\n\n"),
        head("GET / HTTP/1.1\r\r"),
        head("GET / HTTP/1.1\rH"),
        body("\r"),
        body("5\n"),
        body("5;a=b\n"),
        body("5;a=b\rc"),
        body("5x"),
        body("fffffffffffffffff"),
        body("5\r\nhello\n"),
        body("5\r\nhellox"),
        body("5\r\nhello\r\n0\r\n\n"),
        body("0\r\nA: b\n"),
        body("0\r\nA: b\r\n\n"),
        body("0\r\nA: b\rc"),
    ] {
        assert_eq!(verdict(text.as_bytes()), Some(wanted), "{text:?}");
        let whole = format!("{text}\nPOST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n");
        assert_eq!(verdict(whole.as_bytes()), Some(wanted), "{whole:?}");
    }
}

#[test]
fn heads_with_both_lengths_are_refused() {
    let both = b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(refused(both), Some(both.len()));
    let reversed = b"POST / HTTP/1.1\r\ntransfer-ENCODING:chunked\r\nContent-length:0\r\n\r\n";
    assert_eq!(refused(reversed), Some(reversed.len()));
}

#[test]
fn heads_behind_bodies_are_found() {
    let both = b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
    for first in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 17\r\n\r\nfirst\r\n\r\nsecond\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\n0\r\n\r\n\r\na \r\n0123456789\r\n0\r\nA: b\r\n\r\n",
    ] {
        let all = [first.as_bytes(), both, b"more"].concat();
        assert_eq!(refused(&all), Some(first.len() + both.len()), "{first}");
        assert_eq!(refused(first.as_bytes()), None, "{first}");
    }
}

#[test]
fn bodies_are_not_taken_for_heads() {
    let body = "A / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
    let whole = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    assert_eq!(refused(whole.as_bytes()), None);
    let size = body.len();
    let chunked =
        format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{size:x}\r\n{body}\r\n0\r\n\r\n");
    assert_eq!(refused(chunked.as_bytes()), None);
}

#[test]
fn lengths_too_long_to_read_are_refused() {
    let long = format!("POST / HTTP/1.1\r\nContent-Length: {}5\r\n", "0".repeat(LINE_MAX));
    assert_eq!(refused(format!("{long}\r\n").as_bytes()), Some(long.len()));
}

/// They may be the tunnel's, which isn't HTTP.
#[test]
fn bytes_behind_requests_for_tunnels_are_undecided() {
    for head in [
        "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\nCONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /chat HTTP/1.1\r\nConnection: upgrade\r\nupgrade:websocket\r\n\r\n",
        "POST / HTTP/1.1\r\nUpgrade: tls\r\nContent-Length: 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nUpgrade: tls\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    ] {
        assert_eq!(verdict(head.as_bytes()), None, "{head}");
        let early = format!("{head}\n\x16\x03\x01");
        assert_eq!(verdict(early.as_bytes()), Some(Stop::Undecided(head.len())), "{head}");
        let mut framing = Framing::new();
        assert_eq!(framing.feed(head.as_bytes()), None);
        assert!(framing.is_between_requests());
        framing.no_tunnel();
        assert_eq!(framing.feed(b"GET / HTTP/1.1\n"), Some(Stop::Head(14)), "HTTP again: {head}");
    }
    assert_eq!(verdict(b"GET /CONNECT HTTP/1.1\r\nA: CONNECT \r\n\r\nGET"), None);
}

#[test]
fn questions_about_the_server_are_numbered() {
    let mut framing = Framing::new();
    let mut found = Vec::new();
    for target in ["*", "http://a", "/", "http://a:80?b", "http+sctp://a:80", "http://a/", "http://"] {
        let request = format!("\r\nOPTIONS {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
        for byte in request.bytes() {
            assert_eq!(framing.feed(&[byte]), None);
            found.extend(framing.take_about_server());
        }
    }
    assert_eq!(framing.feed(b"GET http://a HTTP/1.1\r\n\r\n"), None);
    found.extend(framing.take_about_server());
    assert_eq!(found, [1, 4]);
}
