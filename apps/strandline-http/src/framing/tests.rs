use super::*;

/// Feeds bytes in pieces of every size, and returns where the refused head ends.
fn refused(bytes: &[u8]) -> Option<usize> {
    let ends: Vec<Option<usize>> = (1..=bytes.len())
        .map(|size| {
            let mut framing = Framing::new();
            let mut before = 0;
            for piece in bytes.chunks(size) {
                if let Some(last) = framing.feed(piece) {
                    return Some(before + last + 1);
                }
                before += piece.len();
            }
            None
        })
        .collect();
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
    ends[0]
}

#[test]
fn heads_with_both_lengths_are_refused() {
    let both = b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(refused(both), Some(both.len()));
    let reversed = b"POST / HTTP/1.1\ntransfer-ENCODING:chunked\nContent-length:0\n\n";
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
