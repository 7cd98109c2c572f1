use super::*;

fn message(kind: u16, body: [u8; BODY_BYTES], attributes: &[(u16, [u8; 4])]) -> Vec<u8> {
    let mut bytes = request(kind, body);
    for (kind, value) in attributes {
        put(&mut bytes, *kind, value);
    }
    let len = (bytes.len() as u32).to_ne_bytes();
    bytes[..4].copy_from_slice(&len);
    bytes
}

#[test]
fn attributes_are_read_in_order() {
    let bytes = message(24, [7; 12], &[(4, [1, 0, 0, 0]), (5, [10, 0, 0, 1])]);
    let (body, attributes) = parse(&bytes, 24).unwrap();
    assert_eq!(body, [7; 12]);
    let all: Vec<_> = Attributes(attributes).collect();
    assert_eq!(all, [(4, &[1, 0, 0, 0][..]), (5, &[10, 0, 0, 1])]);
}

#[test]
fn other_answers_and_broken_ones_are_nothing() {
    let bytes = message(24, [7; 12], &[(4, [1, 0, 0, 0])]);
    assert_eq!(parse(&bytes, 28), None);
    for len in 0..bytes.len() {
        assert_eq!(parse(&bytes[..len], 24), None, "{len}");
    }
    let mut short = bytes.clone();
    short[0] = 3;
    assert_eq!(parse(&short, 24), None);
    // Attributes that claim to be shorter than their header, or longer than the remaining bytes.
    for len in [0_u8, 3, 9, 255] {
        let mut wrong = bytes.clone();
        wrong[HEADER_BYTES + BODY_BYTES] = len;
        let (_, attributes) = parse(&wrong, 24).unwrap();
        assert_eq!(Attributes(attributes).next(), None, "{len}");
    }
}
