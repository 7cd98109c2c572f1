use super::*;
use crate::error::FramingError;
use crate::tlv::TlvWriter;

#[track_caller]
fn round_trip(parameter: &AsconfParameter<'_>, bytes: &[u8]) {
    let mut buffer = [0xff; 64];
    let mut writer = TlvWriter::new(&mut buffer);
    assert!(writer.push(parameter));
    let written = writer.finish();
    assert_eq!(written, bytes);
    let raw = Parameters::new(written).iter().next().unwrap().unwrap();
    assert_eq!(raw.parse_asconf(), Some(Ok(*parameter)));
}

#[track_caller]
fn parse(bytes: &[u8]) -> Result<AsconfParameter<'_>, ParameterError> {
    Parameters::new(bytes).iter().next().unwrap().unwrap().parse_asconf().unwrap()
}

/// The examples of sections 4.2.1, 4.2.2, 4.2.4 and 4.3.1.
#[test]
fn examples_of_the_rfc() {
    let address = IpAddr::from([192, 0, 2, 1]);
    let inner = [0, 5, 0, 8, 192, 0, 2, 1];
    let with = |kind: u8, id: u8| [&[0xc0, kind, 0, 16, 1, 2, 0x34, id][..], &inner].concat();
    round_trip(&AsconfParameter::AddIp { id: 0x0102_3474, address }, &with(1, 0x74));
    round_trip(&AsconfParameter::DeleteIp { id: 0x0102_3476, address }, &with(2, 0x76));
    round_trip(&AsconfParameter::SetPrimary { id: 0x0102_3479, address }, &with(4, 0x79));
    let cause = [&[0, 0xa0, 0, 20][..], &with(2, 0x76)].concat();
    let bytes = [&[0xc0, 3, 0, 28, 1, 2, 0x34, 0x76][..], &cause].concat();
    round_trip(&AsconfParameter::Error { id: 0x0102_3476, causes: &cause }, &bytes);
    round_trip(&AsconfParameter::Success { id: 0x0102_3476 }, &[0xc0, 5, 0, 8, 1, 2, 0x34, 0x76]);
    let v6: IpAddr = "2001:db8::1".parse().unwrap();
    let bytes =
        [0xc0, 1, 0, 28, 0, 0, 0, 7, 0, 6, 0, 20, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    round_trip(&AsconfParameter::AddIp { id: 7, address: v6 }, &bytes);
}

#[test]
fn requests_have_exactly_one_address() {
    for kind in [1, 2, 4] {
        let outer = 0xc000 + u16::from(kind);
        let request =
            |inner: &[u8]| [&[0xc0, kind, 0, 8 + inner.len() as u8, 0, 0, 0, 1][..], inner].concat();
        let short = |minimum, found| Err(ParameterError::TooShort { kind: outer, minimum, found });
        assert_eq!(parse(&[0xc0, kind, 0, 4]), short(4, 0));
        assert_eq!(parse(&[0xc0, kind, 0, 7, 1, 2, 3]), short(4, 3));
        assert_eq!(parse(&request(&[])), short(8, 4));
        let host_name = [0, 11, 0, 8, b'h', b'o', b's', b't'];
        assert_eq!(parse(&request(&host_name)), Err(ParameterError::NotAnAddress { kind: 11 }));
        let nested = request(&[0, 5, 0, 8, 1, 2, 3, 4]);
        assert_eq!(parse(&request(&nested)), Err(ParameterError::NotAnAddress { kind: outer }));
        let wrong = ParameterError::WrongLength { kind: 5, expected: 4, found: 3 };
        assert_eq!(parse(&request(&[0, 5, 0, 7, 1, 2, 3])), Err(wrong));
        let wrong = ParameterError::WrongLength { kind: 6, expected: 16, found: 4 };
        assert_eq!(parse(&request(&[0, 6, 0, 8, 1, 2, 3, 4])), Err(wrong));
        let beyond = FramingError::LengthBeyondEnd { kind: 5, length: 20, remaining: 8 };
        let beyond = ParameterError::Framing { kind: outer, error: beyond };
        assert_eq!(parse(&request(&[0, 5, 0, 20, 1, 2, 3, 4])), Err(beyond));
        let two = [[0, 5, 0, 8, 1, 2, 3, 4], [0, 5, 0, 8, 1, 2, 3, 5]].concat();
        assert_eq!(parse(&request(&two)), Err(ParameterError::MoreThanOneAddress { kind: outer }));
        let rest = [0, 5, 0, 8, 1, 2, 3, 4, 9];
        assert_eq!(parse(&request(&rest)), Err(ParameterError::MoreThanOneAddress { kind: outer }));
    }
}

#[test]
fn responses_of_wrong_length() {
    let short = |found| Err(ParameterError::TooShort { kind: 0xc003, minimum: 4, found });
    assert_eq!(parse(&[0xc0, 3, 0, 4]), short(0));
    assert_eq!(parse(&[0xc0, 3, 0, 7, 1, 2, 3]), short(3));
    for found in [0, 3, 5] {
        let mut bytes = vec![0xc0, 5, 0, 4 + found as u8];
        bytes.resize(4 + found, 1);
        let wrong = ParameterError::WrongLength { kind: 0xc005, expected: 4, found };
        assert_eq!(parse(&bytes), Err(wrong));
    }
}
