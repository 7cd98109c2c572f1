use super::*;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

const STATUS: &[u8] = &[0x48, 0x83, 0x68, 0xe4, 0x3f];
const BOTH: u8 = END_STREAM | END_HEADERS;

#[test]
fn a_status_alone_is_one_field() {
    for block in [STATUS, &[0xbe], &[0xff, 0x01], &[0x08, 0x03, b'4', b'3', b'1'], &[0x3f, 0xe1, 0x1f, 0xbe]]
    {
        assert!(is_one_field(block), "{block:x?}");
    }
    for block in [
        &[][..],
        &[0x20],
        &[0xbe, 0xbf],
        &[0x48, 0x83, 0x68, 0xe4, 0x3f, 0xbe],
        &[0x48, 0x83, 0x68],
        // A name that isn't in a table.
        &[0x40, 0x01, b'a', 0x01, b'b'],
        &[0xff, 0xff, 0xff, 0xff, 0xff],
    ] {
        assert!(!is_one_field(block), "{block:x?}");
    }
}

#[test]
fn only_first_heads_count() {
    let written = [
        frame(4, 0, 0, &[0; 18]),
        frame(HEADERS, BOTH, 1, STATUS),
        // A response with trailers.
        frame(HEADERS, END_HEADERS, 3, &[0x88, 0xbe]),
        frame(DATA, 0, 3, &[0xbe; 1000]),
        frame(HEADERS, BOTH, 3, &[0xbe]),
        // One without a body.
        frame(HEADERS, BOTH, 5, &[0x89, 0xbf]),
        frame(HEADERS, BOTH, 7, &[0xbe]),
    ]
    .concat();
    assert_eq!(Replies::default().feed(&written), 2);
    let mut replies = Replies::default();
    assert_eq!(written.iter().map(|byte| replies.feed(&[*byte])).sum::<usize>(), 2);
    assert!(replies.begun.is_empty());
}

#[test]
fn responses_that_were_reset_take_no_memory() {
    let mut replies = Replies::default();
    let streams = || (1..9999).step_by(2);
    for stream in streams() {
        assert_eq!(replies.feed(&frame(HEADERS, END_HEADERS, stream, &[0x88, 0xbe])), 0);
    }
    assert_eq!(replies.begun.len(), BEGUN_MAX);
    let trailers = streams().map(|stream| replies.feed(&frame(HEADERS, BOTH, stream, &[0xbe])));
    assert_eq!(trailers.sum::<usize>(), 0, "trailers are no status");
    assert_eq!(replies.feed(&frame(HEADERS, BOTH, 10_001, &[0xbe])), 1);
}
