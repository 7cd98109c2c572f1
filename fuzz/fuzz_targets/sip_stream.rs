//! Any bytes as a stream, in pieces: the same comes out as from the whole, every message that comes out is as
//! long as it says, and nothing is looked at twice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strandline_sip::codec::{Cut, Limits, Side, StreamFramer};

/// What was cut, each with its place and length, and whether the stream ended with an error.
fn cut(side: Side, stream: &[u8], piece: usize) -> (Vec<(usize, Cut)>, bool) {
    let limits = Limits { header_bytes_max: 4096, body_bytes_max: 4096, ..Limits::default() };
    let mut framer = StreamFramer::new(side, limits);
    let (mut start, mut end, mut cuts) = (0, 0, Vec::new());
    loop {
        match framer.cut(&stream[start..end]) {
            Err(_) => return (cuts, true),
            Ok(Cut::Incomplete) => {
                assert!(end - start <= 2 * 4096 + 4 + piece, "a half message is bounded");
                if end == stream.len() {
                    return (cuts, false);
                }
                end = (end + piece).min(stream.len());
            }
            Ok(found) => {
                let len = match found {
                    Cut::Message { len } | Cut::Ping { len } | Cut::Pong { len } | Cut::Blank { len } => len,
                    Cut::Incomplete => 0,
                };
                assert!(len > 0 && len <= end - start);
                cuts.push((start, found));
                start += len;
            }
        }
    }
}

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (piece, opened, stream) = input;
    let side = if opened { Side::Opened } else { Side::Accepted };
    let whole = cut(side, stream, stream.len().max(1));
    assert_eq!(cut(side, stream, usize::from(piece) + 1), whole);
    assert_eq!(cut(side, stream, 1), whole);
});
