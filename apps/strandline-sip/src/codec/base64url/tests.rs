use super::*;

fn encoded(bytes: &[u8]) -> Vec<u8> {
    let mut out = b"before".to_vec();
    base64url(bytes, &mut out);
    out.split_off(6)
}

fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut room = [0xaa; 100];
    base64url_decode(text, &mut room).map(|len| room[..len].to_vec())
}

/// RFC 4648 section 10, without padding, and with both digits that differ from plain Base64.
#[test]
fn it_is_that_of_the_rfc() {
    let pairs: [(&[u8], &[u8]); 8] = [
        (b"", b""),
        (b"f", b"Zg"),
        (b"fo", b"Zm8"),
        (b"foo", b"Zm9v"),
        (b"foob", b"Zm9vYg"),
        (b"fooba", b"Zm9vYmE"),
        (b"foobar", b"Zm9vYmFy"),
        (&[0xfb, 0xff], b"-_8"),
    ];
    for (bytes, text) in pairs {
        assert_eq!((encoded(bytes), decoded(text)), (text.to_vec(), Some(bytes.to_vec())));
    }
}

#[test]
fn what_was_written_is_read_and_nothing_else() {
    for len in 0..=60 {
        let bytes: Vec<u8> = (0..len).map(|number: u8| number.wrapping_mul(197).wrapping_add(len)).collect();
        let text = encoded(&bytes);
        assert_eq!(decoded(&text), Some(bytes.clone()));
        // The last byte doesn't fit.
        let mut room = vec![0; bytes.len().saturating_sub(1)];
        assert_eq!(base64url_decode(&text, &mut room).is_some(), bytes.is_empty());
        for at in 0..text.len() {
            for wrong in [b'=', b'+', b'/', b' ', 0, 0x80, 0xff] {
                let mut text = text.clone();
                text[at] = wrong;
                assert_eq!(decoded(&text), None, "{text:?}");
            }
        }
    }
    for wrong in ["A", "Zm9vA", "Zh", "Zm9"] {
        assert_eq!(decoded(wrong.as_bytes()), None, "{wrong}: bits that stand for nothing");
    }
}
