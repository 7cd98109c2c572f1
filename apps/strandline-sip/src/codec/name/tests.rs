use super::*;

#[test]
fn every_name_is_found_in_any_case() {
    assert_eq!(HeaderName::all().count(), NAMES_LEN);
    for (number, name) in HeaderName::all().enumerate() {
        assert_eq!(name as usize, number);
        assert_eq!(HeaderName::from_bytes(name.as_str().as_bytes()), name);
        assert_eq!(HeaderName::from_bytes(name.as_str().to_uppercase().as_bytes()), name);
        assert_eq!(HeaderName::from_bytes(name.as_str().to_lowercase().as_bytes()), name);
    }
}

#[test]
fn compact_forms_are_those_registered() {
    let compact: Vec<(&str, &str)> =
        HeaderName::all().filter_map(|name| Some((name.compact()?, name.as_str()))).collect();
    assert_eq!(compact.len(), 19);
    for (letter, name) in compact {
        assert_eq!(HeaderName::from_bytes(letter.as_bytes()).as_str(), name);
        assert_eq!(HeaderName::from_bytes(letter.to_uppercase().as_bytes()).as_str(), name);
    }
}

#[test]
fn what_looks_like_a_name_is_not_one() {
    for name in [&b""[..], b"C%6Fntact", b"Viaa", b"Vi", b"z", b"\x16", b"6", b"Call_ID", b"Call\rID", b"@"] {
        assert_eq!(HeaderName::from_bytes(name), HeaderName::Other, "{}", name.escape_ascii());
    }
}
