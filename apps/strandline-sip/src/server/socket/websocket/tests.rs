//! Frames as a client sends them, with masks.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

const FINAL: u8 = 0x80;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const PING: u8 = 9;

fn sent(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        len @ 0..=125 => bytes.push(0x80 | len as u8),
        len => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&(len as u16).to_be_bytes());
        }
    }
    let mask = [1, 2, 3, 4];
    bytes.extend_from_slice(&mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

#[test]
fn a_frame_is_cut_once_it_is_whole() {
    let bytes = sent(FINAL | TEXT, &[b'a'; 300]);
    for len in 0..bytes.len() {
        assert_eq!(frame(&bytes[..len], 1000), Ok(None), "{len}");
    }
    let found = Some(Frame { len: bytes.len(), unfinished: Some(false) });
    assert_eq!(frame(&[&bytes[..], b"more"].concat(), 1000), Ok(found));
    assert_eq!(frame(&bytes, 299), Err(CloseCode::Size));
    // A frame that claims to be too long is rejected before it arrives.
    let claim = [0x82, 0xff, 0x40, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
    assert_eq!(frame(&claim, 1000), Err(CloseCode::Size));
    assert_eq!(frame(&sent(FINAL | 3, b""), 1000), Err(CloseCode::Protocol));
    assert_eq!(frame(&sent(TEXT, b"x"), 1000).unwrap().unwrap().unfinished, Some(true));
    assert_eq!(frame(&sent(FINAL | PING, b"x"), 1000).unwrap().unwrap().unfinished, None);
}

#[test]
fn frames_become_messages_and_pings_are_answered() {
    let (mut websocket, mut out) = (WebSocket::new(1000), Vec::new());
    assert_eq!(
        websocket.open(&sent(FINAL | TEXT, b"one"), &mut out),
        Opened::Message(Bytes::from_static(b"one"))
    );
    let bytes = Bytes::from_static(&[0xff, 0]);
    assert_eq!(websocket.open(&sent(FINAL | BINARY, &bytes), &mut out), Opened::Message(bytes));
    assert_eq!(websocket.open(&sent(TEXT, b"tw"), &mut out), Opened::Nothing);
    assert_eq!(out, b"");
    assert_eq!(websocket.open(&sent(FINAL | PING, b"there?"), &mut out), Opened::Nothing);
    assert_eq!(out, b"\x8a\x06there?");
    let two = Opened::Message(Bytes::from_static(b"two"));
    assert_eq!(websocket.open(&sent(FINAL, b"o"), &mut out), two);
    // In the other direction.
    out.clear();
    assert!(websocket.seal("grüß".as_bytes(), &mut out) && websocket.seal(&[0xff], &mut out));
    assert_eq!(out, [&[0x81, 6], "grüß".as_bytes(), &[0x82, 1, 0xff]].concat());
}

#[test]
fn invalid_frames_close_with_a_reason() {
    let close = |code: u16| [&[0x88, 2], &code.to_be_bytes()[..]].concat();
    let unmasked = vec![FINAL | TEXT, 1, b'a'];
    for (frames, code) in [
        (vec![unmasked], 1002),
        (vec![sent(FINAL, b"a rest of nothing")], 1002),
        (vec![sent(FINAL | TEXT, &[0xff])], 1007),
        (vec![sent(TEXT, &[b'a'; 60]), sent(FINAL, &[b'a'; 60])], 1009),
    ] {
        let (mut websocket, mut out) = (WebSocket::new(100), Vec::new());
        let last = frames.iter().map(|frame| websocket.open(frame, &mut out)).last();
        assert_eq!((last, &out), (Some(Opened::End), &close(code)));
        assert!(!websocket.seal(b"too late", &mut out));
    }
    // A close frame is answered.
    let (mut websocket, mut out) = (WebSocket::new(100), Vec::new());
    assert_eq!(websocket.open(&sent(FINAL | 8, &1000u16.to_be_bytes()), &mut out), Opened::End);
    assert_eq!(out, close(1000));
}
