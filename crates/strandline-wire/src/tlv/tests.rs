use super::*;
use crate::parameter::{Parameter, Parameters};

fn walk(bytes: &[u8]) -> Vec<Result<(u16, Vec<u8>), FramingError>> {
    Tlvs::new(bytes).map(|tlv| tlv.map(|tlv| (tlv.kind, tlv.value.to_vec()))).collect()
}

#[test]
fn padding_between_is_skipped() {
    let bytes = [0, 7, 0, 5, 0xaa, 1, 2, 3, 0x80, 0, 0, 4];
    assert_eq!(walk(&bytes), [Ok((7, vec![0xaa])), Ok((0x8000, vec![]))]);
}

#[test]
fn final_padding_may_be_counted_or_not() {
    for padding in 0..=3 {
        let mut bytes = vec![0, 7, 0, 5, 0xaa];
        bytes.resize(5 + padding, 0);
        assert_eq!(walk(&bytes), [Ok((7, vec![0xaa]))]);
    }
}

#[test]
fn impossible_lengths_end_the_walk() {
    for length in 0..4 {
        let wrong = FramingError::LengthTooSmall { kind: 1, length: u16::from(length) };
        assert_eq!(walk(&[0, 1, 0, length, 0, 1, 0, 4]), [Err(wrong)]);
    }
    let wrong = FramingError::LengthBeyondEnd { kind: 6, length: 20, remaining: 8 };
    assert_eq!(walk(&[0, 6, 0, 20, 1, 2, 3, 4]), [Err(wrong)]);
    for remaining in 1..4 {
        let mut bytes = vec![0x80, 0, 0, 4];
        bytes.extend(vec![0; remaining]);
        assert_eq!(walk(&bytes), [Ok((0x8000, vec![])), Err(FramingError::HeaderTruncated { remaining })]);
    }
}

#[test]
fn the_writer_pads_between_but_not_after() {
    let mut buffer = [0xff; 64];
    let mut writer = TlvWriter::new(&mut buffer);
    assert!(writer.is_empty());
    assert!(writer.push(&Parameter::StateCookie(&[1, 2, 3, 4, 5])));
    assert_eq!(writer.len(), 9);
    assert!(writer.push(&Parameter::HostName(b"a\0")));
    assert_eq!(writer.finish(), [0, 7, 0, 9, 1, 2, 3, 4, 5, 0, 0, 0, 0, 11, 0, 6, b'a', 0]);
}

#[test]
fn the_writer_refuses_what_does_not_fit() {
    let mut buffer = [0; 19];
    let mut writer = TlvWriter::new(&mut buffer);
    assert!(writer.push(&Parameter::StateCookie(&[1, 2, 3, 4, 5])));
    assert!(!writer.push(&Parameter::Ipv4Address([1, 2, 3, 4].into())), "12 + 8 bytes into 19");
    assert!(writer.push(&Parameter::HostName(&[1, 2, 0])), "no padding after the last");
    assert_eq!(writer.len(), 19);
    let parameters = Parameters::new(writer.finish());
    assert_eq!(parameters.iter().map(|parameter| parameter.unwrap().kind).collect::<Vec<_>>(), [7, 11]);
}

#[test]
fn the_writer_refuses_what_16_bits_cannot_count() {
    let mut buffer = vec![0; 70_000];
    let mut writer = TlvWriter::new(&mut buffer);
    assert!(!writer.push(&Parameter::Pad { padding_len: usize::MAX }));
    assert!(!writer.push(&Parameter::Pad { padding_len: 65_532 }));
    assert!(writer.push(&Parameter::Pad { padding_len: 65_531 }));
}
