use super::{INLINE, Text};

#[test]
fn text_equals_its_source_at_any_length() {
    for len in [0, 1, INLINE - 1, INLINE, INLINE + 1, 3000] {
        let bytes: Vec<u8> = (0..len).map(|number| number as u8).collect();
        let text = Text::from(&bytes[..]);
        assert_eq!(*text, bytes[..], "{len} bytes");
        assert_eq!(text, text.clone());
    }
}

#[test]
fn texts_are_compared_by_what_they_say() {
    assert_ne!(Text::from(&b"a"[..]), Text::from(&b"a\0"[..]));
    assert_ne!(Text::from(&[b'a'; 80][..]), Text::from(&[b'a'; 81][..]));
    assert_eq!(format!("{:?}", Text::from(&b"a\n"[..])), "\"a\\n\"");
}

#[test]
fn short_text_is_stored_inline() {
    assert_eq!(size_of::<Text>(), 48);
}
