use super::*;
use crate::tlv::TlvWriter;

#[track_caller]
fn round_trip(cause: &Cause<'_>, bytes: &[u8]) {
    let mut buffer = [0xff; 64];
    let mut writer = TlvWriter::new(&mut buffer);
    assert!(writer.push(cause));
    let written = writer.finish();
    assert_eq!(written, bytes);
    let raw = Causes::new(written).iter().next().unwrap().unwrap();
    assert_eq!(raw.parse().as_ref(), Ok(cause));
}

#[track_caller]
fn rejects(bytes: &[u8], error: CauseError) {
    let raw = Causes::new(bytes).iter().next().unwrap().unwrap();
    assert_eq!(raw.parse(), Err(error));
}

#[test]
fn all_that_are_known() {
    let address = [0, 5, 0, 8, 192, 0, 2, 1];
    let address_list = Parameters::new(&address);
    round_trip(&Cause::InvalidStream { stream: StreamId(258) }, &[0, 1, 0, 8, 1, 2, 0, 0]);
    let missing = Cause::MissingParameters(MissingParameters::STATE_COOKIE);
    round_trip(&missing, &[0, 2, 0, 10, 0, 0, 0, 1, 0, 7]);
    round_trip(&Cause::StaleCookie { staleness_us: 258 }, &[0, 3, 0, 8, 0, 0, 1, 2]);
    round_trip(&Cause::OutOfResource, &[0, 4, 0, 4]);
    round_trip(&Cause::UnresolvableAddress(&address), &[&[0, 5, 0, 12][..], &address].concat());
    round_trip(&Cause::UnrecognisedChunk(&[0xc1, 2, 0, 4]), &[0, 6, 0, 8, 0xc1, 2, 0, 4]);
    round_trip(&Cause::InvalidMandatoryParameter, &[0, 7, 0, 4]);
    round_trip(&Cause::UnrecognisedParameters(address_list), &[&[0, 8, 0, 12][..], &address].concat());
    round_trip(&Cause::NoUserData { tsn: Tsn(258) }, &[0, 9, 0, 8, 0, 0, 1, 2]);
    round_trip(&Cause::CookieWhileShuttingDown, &[0, 10, 0, 4]);
    round_trip(&Cause::RestartWithNewAddresses(address_list), &[&[0, 11, 0, 12][..], &address].concat());
    round_trip(&Cause::UserInitiatedAbort(b"bye"), &[0, 12, 0, 7, b'b', b'y', b'e']);
    round_trip(&Cause::ProtocolViolation(b"no"), &[0, 13, 0, 6, b'n', b'o']);
    let moved = Cause::RestartWithNewEncapsulationPort { current: 9899, new: 258 };
    round_trip(&moved, &[0, 14, 0, 8, 0x26, 0xab, 1, 2]);
    round_trip(&Cause::UnsupportedHmac { hmac: 258 }, &[1, 5, 0, 6, 1, 2]);
    let refused = [0xc0, 2, 0, 16, 0, 0, 0, 7, 0, 5, 0, 8, 192, 0, 2, 1];
    let list = Parameters::new(&refused);
    for (code, cause) in [
        (0xa0, Cause::DeleteLastAddress(list)),
        (0xa1, Cause::ResourceShortage(list)),
        (0xa2, Cause::DeleteSourceAddress(list)),
        (0xa4, Cause::NoAuthorization(list)),
    ] {
        round_trip(&cause, &[&[0, code, 0, 20][..], &refused].concat());
    }
    round_trip(&Cause::IllegalAsconfAck, &[0, 0xa3, 0, 4]);
    let unknown = RawCause { code: 0x1234, value: &[1] };
    round_trip(&Cause::Unknown(unknown), &[0x12, 0x34, 0, 5, 1]);
}

#[test]
fn wrong_lengths() {
    for code in [1_u8, 3, 9, 14] {
        let error = |found| CauseError::WrongLength { code: code.into(), expected: 4, found };
        rejects(&[0, code, 0, 4], error(0));
        rejects(&[0, code, 0, 7, 1, 2, 3], error(3));
        rejects(&[0, code, 0, 9, 1, 2, 3, 4, 5], error(5));
    }
    for found in [0, 1, 3, 4] {
        let mut bytes = vec![1, 5, 0, 4 + found as u8];
        bytes.resize(4 + found, 1);
        rejects(&bytes, CauseError::WrongLength { code: 0x0105, expected: 2, found });
    }
    for code in [4_u8, 7, 10, 0xa3] {
        rejects(&[0, code, 0, 5, 1], CauseError::WrongLength { code: code.into(), expected: 0, found: 1 });
    }
}

#[test]
fn missing_parameters_count_must_agree() {
    rejects(&[0, 2, 0, 7, 0, 0, 0], CauseError::TooShort { code: 2, minimum: 4, found: 3 });
    rejects(&[0, 2, 0, 10, 0, 0, 0, 2, 0, 7], CauseError::Count { count: 2, found: 2 });
    rejects(&[0, 2, 0, 10, 0, 0, 0, 0, 0, 7], CauseError::Count { count: 0, found: 2 });
    rejects(&[0, 2, 0, 9, 0, 0, 0, 1, 0], CauseError::Count { count: 1, found: 1 });
    rejects(&[0, 2, 0, 10, 0xff, 0xff, 0xff, 0xff, 0, 7], CauseError::Count { count: u32::MAX, found: 2 });
    let raw = Causes::new(&[0, 2, 0, 12, 0, 0, 0, 2, 0, 7, 0, 5]).iter().next().unwrap().unwrap();
    let Ok(Cause::MissingParameters(missing)) = raw.parse() else { panic!("{raw:?}") };
    assert_eq!(missing.iter().collect::<Vec<_>>(), [7, 5]);
}

#[test]
fn codes_have_names() {
    let named: Vec<u16> = (0..=u16::MAX).filter(|&code| code::name(code).is_some()).collect();
    assert_eq!(named, (1..=14).chain(0xa0..=0xa4).chain([0x0105]).collect::<Vec<_>>());
}
