use super::{hex, unhex};

#[test]
fn hex_digits_round_trip() {
    let mut number = 0x0123_4567_89ab_cdef_u64;
    for round in 0..2000 {
        let digits = hex(number >> (round % 64));
        assert_eq!(digits, format!("{:016x}", number >> (round % 64)).as_bytes());
        assert_eq!(unhex(&digits), Some(number >> (round % 64)));
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    assert_eq!((hex(0), hex(u64::MAX)), (*b"0000000000000000", *b"ffffffffffffffff"));
}

#[test]
fn other_characters_are_no_hex_number() {
    for place in 0..16 {
        for byte in 0..=u8::MAX {
            let mut text = hex(0x0123_4567_89ab_cdef);
            text[place] = byte;
            let is_digit = byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            let expected = str::from_utf8(&text).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
            assert_eq!(unhex(&text), expected.filter(|_| is_digit), "{} at {place}", byte.escape_ascii());
        }
    }
}
