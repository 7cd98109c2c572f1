use super::*;

#[test]
fn the_first_is_found_wherever_it_stands() {
    for len in 0..40 {
        for at in 0..=len {
            for byte in [0, 1, b'\t', b'\n', b'\r', 0x1f] {
                let mut bytes = vec![0x20; len];
                bytes.extend([byte, 0xff, 0, b':', 0x80]);
                bytes[at..len].iter_mut().for_each(|byte| *byte = 0xff);
                assert_eq!(control(&bytes, at.min(3)), len);
                assert_eq!(colon(&bytes, 0), len);
            }
            let mut bytes = vec![b';'; len];
            bytes.push(b':');
            assert_eq!(colon(&bytes, at), len);
            assert_eq!(control(&bytes, at), len + 1);
        }
    }
    assert_eq!(control(b"abc", 9), 9);
}
