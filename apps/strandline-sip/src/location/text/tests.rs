use super::{INLINE, Text};

#[test]
fn it_is_what_it_was_made_of_however_long() {
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
fn a_short_one_is_no_larger_than_it_needs_to_be() {
    assert_eq!(size_of::<Text>(), 48);
}
