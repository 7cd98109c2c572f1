use super::*;
use crate::action::UnrecognisedAction;
use crate::tlv::TlvWriter;

#[track_caller]
fn round_trip(parameter: &Parameter<'_>, bytes: &[u8]) {
    let mut buffer = [0xff; 64];
    let mut writer = TlvWriter::new(&mut buffer);
    assert!(writer.push(parameter));
    let written = writer.finish();
    assert_eq!(written, bytes);
    let raw = Parameters::new(written).iter().next().unwrap().unwrap();
    assert_eq!(raw.as_bytes(), bytes);
    assert_eq!(raw.parse().as_ref(), Ok(parameter));
}

/// Asserts that a parameter of type `kind` with `len` bytes of value doesn't parse.
#[track_caller]
fn rejects(kind: u16, len: usize, error: ParameterError) {
    let mut bytes = [kind.to_be_bytes(), u16::try_from(4 + len).unwrap().to_be_bytes()].concat();
    bytes.resize(4 + len, 1);
    let raw = Parameters::new(&bytes).iter().next().unwrap().unwrap();
    assert_eq!(raw.parse(), Err(error));
}

#[test]
fn addresses() {
    round_trip(&Parameter::Ipv4Address([192, 0, 2, 1].into()), &[0, 5, 0, 8, 192, 0, 2, 1]);
    let v6: Ipv6Addr = "2001:db8::1".parse().unwrap();
    let bytes = [0, 6, 0, 20, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    round_trip(&Parameter::Ipv6Address(v6), &bytes);
    assert_eq!(Parameter::from(IpAddr::V6(v6)), Parameter::Ipv6Address(v6));
    assert_eq!(Parameter::from(IpAddr::V4([1, 2, 3, 4].into())), Parameter::Ipv4Address([1, 2, 3, 4].into()));
}

/// An address parameter whose length disagreed with its type made other stacks read beyond its end
/// (CVE-2021-3655).
#[test]
fn addresses_of_wrong_length() {
    for found in [0, 1, 3, 5, 8, 16] {
        rejects(kind::IPV4_ADDRESS, found, ParameterError::WrongLength { kind: 5, expected: 4, found });
    }
    for found in [0, 4, 15, 17, 32] {
        rejects(kind::IPV6_ADDRESS, found, ParameterError::WrongLength { kind: 6, expected: 16, found });
    }
}

#[test]
fn opaque_values() {
    round_trip(&Parameter::HeartbeatInfo(&[1, 2]), &[0, 1, 0, 6, 1, 2]);
    round_trip(&Parameter::StateCookie(&[1, 2, 3]), &[0, 7, 0, 7, 1, 2, 3]);
    let unrecognised = [0xc0, 1, 0, 5, 9];
    round_trip(&Parameter::UnrecognisedParameter(&unrecognised), &[0, 8, 0, 9, 0xc0, 1, 0, 5, 9]);
    round_trip(&Parameter::HostName(b"a.b\0"), &[0, 11, 0, 8, b'a', b'.', b'b', 0]);
    round_trip(&Parameter::Pad { padding_len: 3 }, &[0x80, 5, 0, 7, 0, 0, 0]);
    round_trip(&Parameter::StateCookie(&[]), &[0, 7, 0, 4]);
}

#[test]
fn cookie_preservative() {
    let parameter = Parameter::CookiePreservative { increment_ms: 0x0102_0304 };
    round_trip(&parameter, &[0, 9, 0, 8, 1, 2, 3, 4]);
    rejects(9, 3, ParameterError::WrongLength { kind: 9, expected: 4, found: 3 });
    rejects(9, 8, ParameterError::WrongLength { kind: 9, expected: 4, found: 8 });
}

#[test]
fn supported_address_types() {
    let both = SupportedAddressTypes::BOTH;
    round_trip(&Parameter::SupportedAddressTypes(both), &[0, 12, 0, 8, 0, 5, 0, 6]);
    assert!(both.has_ipv4() && both.has_ipv6());
    let v4 = SupportedAddressTypes::IPV4;
    round_trip(&Parameter::SupportedAddressTypes(v4), &[0, 12, 0, 6, 0, 5]);
    assert!(v4.has_ipv4() && !v4.has_ipv6());
    assert_eq!(SupportedAddressTypes::IPV6.iter().collect::<Vec<_>>(), [6]);
    rejects(12, 3, ParameterError::NotAMultiple { kind: 12, element: 2, found: 3 });
}

#[test]
fn ecn_capable() {
    round_trip(&Parameter::EcnCapable, &[0x80, 0, 0, 4]);
    rejects(0x8000, 4, ParameterError::WrongLength { kind: 0x8000, expected: 0, found: 4 });
}

/// A receiver that doesn't know the parameter skips it and reports it (RFC 3758 section 3.3.2).
#[test]
fn forward_tsn_supported() {
    round_trip(&Parameter::ForwardTsnSupported, &[0xc0, 0, 0, 4]);
    rejects(0xc000, 4, ParameterError::WrongLength { kind: 0xc000, expected: 0, found: 4 });
    let unknown = UnrecognisedAction::of_parameter(kind::FORWARD_TSN_SUPPORTED);
    assert_eq!(unknown, UnrecognisedAction::SkipAndReport);
}

/// A receiver that doesn't know the parameter skips it and reports it (RFC 5061 section 4.2.6).
#[test]
fn adaptation_layer() {
    round_trip(&Parameter::AdaptationLayer { code_point: 0x0102_0304 }, &[0xc0, 6, 0, 8, 1, 2, 3, 4]);
    for found in [0, 3, 5] {
        rejects(0xc006, found, ParameterError::WrongLength { kind: 0xc006, expected: 4, found });
    }
}

#[test]
fn supported_extensions() {
    round_trip(&Parameter::SupportedExtensions(&[130, 192, 193]), &[0x80, 8, 0, 7, 130, 192, 193]);
    round_trip(&Parameter::SupportedExtensions(&[]), &[0x80, 8, 0, 4]);
}

/// A receiver that doesn't know the parameters of RFC 4895 skips them without a report (section 3).
#[test]
fn authentication() {
    let random = [7; 32];
    round_trip(&Parameter::Random(&random), &[&[0x80, 2, 0, 36][..], &random].concat());
    round_trip(&Parameter::Random(&[1]), &[0x80, 2, 0, 5, 1]);
    round_trip(&Parameter::ChunkList(&[0, 3, 193]), &[0x80, 3, 0, 7, 0, 3, 193]);
    round_trip(&Parameter::HmacAlgo(HmacIdentifiers::SHA1), &[0x80, 4, 0, 6, 0, 1]);
    let both = HmacIdentifiers::SHA256_SHA1;
    round_trip(&Parameter::HmacAlgo(both), &[0x80, 4, 0, 8, 0, 3, 0, 1]);
    assert_eq!(both.iter().collect::<Vec<_>>(), [HMAC_SHA256, HMAC_SHA1]);
    assert_eq!(HmacIdentifiers::SHA1_SHA256.iter().collect::<Vec<_>>(), [HMAC_SHA1, HMAC_SHA256]);
    rejects(0x8004, 3, ParameterError::NotAMultiple { kind: 0x8004, element: 2, found: 3 });
    rejects(0x8003, 257, ParameterError::TooLong { kind: 0x8003, maximum: 256, found: 257 });
    for kind in [kind::RANDOM, kind::CHUNK_LIST, kind::HMAC_ALGO] {
        assert_eq!(UnrecognisedAction::of_parameter(kind), UnrecognisedAction::Skip);
    }
}

#[test]
fn zero_checksum_acceptable() {
    let parameter = Parameter::ZeroChecksumAcceptable { edmid: EDMID_SCTP_OVER_DTLS };
    round_trip(&parameter, &[0x80, 1, 0, 8, 0, 0, 0, 1]);
    round_trip(&Parameter::ZeroChecksumAcceptable { edmid: 0x0102_0304 }, &[0x80, 1, 0, 8, 1, 2, 3, 4]);
    for found in [0, 3, 5, 8] {
        rejects(0x8001, found, ParameterError::WrongLength { kind: 0x8001, expected: 4, found });
    }
}

/// A receiver that doesn't know the parameter skips it without a report (RFC 9653 section 4).
#[test]
fn zero_checksum_acceptable_is_skipped_by_others() {
    assert_eq!(UnrecognisedAction::of_parameter(kind::ZERO_CHECKSUM_ACCEPTABLE), UnrecognisedAction::Skip);
}

#[test]
fn stream_credit() {
    round_trip(&Parameter::StreamCredit { initial_kib: 0x0102 }, &[0xbc, 0x5c, 0, 8, 1, 2, 0, 0]);
    for found in [0, 3, 5, 8] {
        rejects(0xbc5c, found, ParameterError::WrongLength { kind: 0xbc5c, expected: 4, found });
    }
    // Peers that don't know it skip it without a report.
    assert_eq!(UnrecognisedAction::of_parameter(kind::STREAM_CREDIT), UnrecognisedAction::Skip);
}

#[test]
fn unknown_parameters_say_what_to_do() {
    for (kind, action) in [
        (0x3fff_u16, UnrecognisedAction::Stop),
        (0x4000, UnrecognisedAction::StopAndReport),
        (0x8fff, UnrecognisedAction::Skip),
        (0xffff, UnrecognisedAction::SkipAndReport),
    ] {
        let bytes = [&kind.to_be_bytes()[..], &[0, 5, 1]].concat();
        let raw = Parameters::new(&bytes).iter().next().unwrap().unwrap();
        assert_eq!(raw.unrecognised_action(), action);
        round_trip(&Parameter::Unknown(raw), &bytes);
    }
}

#[test]
fn kinds_have_names() {
    let named: Vec<u16> = (0..=u16::MAX).filter(|&kind| kind::name(kind).is_some()).collect();
    assert_eq!(
        named,
        [
            1, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 0x8000, 0x8001, 0x8002, 0x8003, 0x8004, 0x8005,
            0x8008, 0xbc5c, 0xc000, 0xc001, 0xc002, 0xc003, 0xc004, 0xc005, 0xc006
        ]
    );
}
