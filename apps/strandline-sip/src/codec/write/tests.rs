use bytes::BytesMut;

use super::via::write_address;
use super::*;

#[test]
fn line_terminators_in_values_are_found() {
    for len in 0..40 {
        for at in 0..len {
            for (byte, ends) in
                [(b'\r', true), (b'\n', true), (0, true), (b'\t', false), (1, false), (0xff, false)]
            {
                for filler in [b'x', b'\t', 0x80] {
                    let mut text = vec![filler; len];
                    text[at] = byte;
                    assert_eq!(check_text(&text).is_err(), ends, "{text:?}");
                }
            }
        }
    }
    assert_eq!(check_text(b""), Ok(()));
}

#[test]
fn folding_needs_a_blank_on_the_next_line() {
    let goes: [&[u8]; 5] = [b"a\r\n b", b"a\r\n\tb\r\n  c", b"\r\n \r\n ", b"\"\\\0\"", b""];
    for text in goes {
        assert_eq!(check_value(text), Ok(()), "{text:?}");
        assert_eq!(check_text(text).is_ok(), text.is_empty());
    }
    let ends: [&[u8]; 9] = [
        b"a\r\nb: c",
        b"a\r\n",
        b"a\n b",
        b"a\r b",
        b"a\r",
        b"a\r\n b\r\n\r\n",
        b"\0",
        b"a\\b\0",
        b"\\\r\nX: y",
    ];
    for text in ends {
        assert_eq!(check_value(text), Err(WriteError::LineBreak), "{text:?}");
    }
    // At any position.
    for len in 0..40 {
        for at in 0..len {
            let mut text = vec![b'x'; len];
            text.splice(at..at, *b"\r\n ");
            assert_eq!(check_value(&text), Ok(()));
            text[at + 2] = b'y';
            assert_eq!(check_value(&text), Err(WriteError::LineBreak));
        }
    }
}

#[test]
fn addresses_are_written_as_they_are_read() {
    for number in 0..=255u8 {
        for address in
            [[number, 0, 10, 255], [1, number, 99, 100], [9, 200, number, 0], [255, 255, 255, number]]
        {
            let mut out = BytesMut::new();
            write_address(&mut out, address.into());
            assert_eq!(out, std::net::Ipv4Addr::from(address).to_string().as_bytes());
        }
    }
}
