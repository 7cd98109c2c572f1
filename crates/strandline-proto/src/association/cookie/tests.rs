use super::*;

fn cookie() -> Cookie {
    Cookie {
        created: Time::from_nanos(5_000_000_000),
        lifetime_ms: 60_000,
        local_tag: VerificationTag(1),
        peer_tag: VerificationTag(2),
        local_tie_tag: 3,
        peer_tie_tag: 4,
        local_port: 5,
        peer_port: 6,
        local_initial_tsn: Tsn(7),
        peer_initial_tsn: Tsn(8),
        peer_rwnd: 9,
        outbound_streams: 10,
        inbound_streams: 11,
        // Both sides use ECN, and SCTP over DTLS without checksums.
        features: Features::from_bytes([0x81, 0, 1]),
        adaptation: None,
        auth: None,
        source: "[fe80::1%0]:9899".parse().unwrap(),
        destination: Some("10.0.0.1".parse().unwrap()),
        addresses: vec!["10.0.0.2".parse().unwrap(), "::2".parse().unwrap()],
        primary: Some("::2".parse().unwrap()),
        named: vec!["10.0.0.1".parse().unwrap(), "::1".parse().unwrap()],
    }
}

fn keys() -> CookieKeys {
    CookieKeys::new([7; 32], Duration::from_secs(120), Time::ZERO)
}

#[test]
fn what_was_sealed_opens_unchanged() {
    let sealed = keys().seal(&cookie());
    assert!(sealed.len() <= COOKIE_LEN_MAX && sealed.len().is_multiple_of(4));
    assert_eq!(keys().open(&sealed, Time::from_nanos(6_000_000_000)), Ok(cookie()));
}

#[test]
fn any_altered_bit_is_refused() {
    let sealed = keys().seal(&cookie());
    for bit in 0..sealed.len() * 8 {
        let mut altered = sealed.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(keys().open(&altered, Time::ZERO), Err(CookieError::Forged), "bit {bit}");
    }
    for len in 0..sealed.len() {
        assert_eq!(keys().open(&sealed[..len], Time::ZERO), Err(CookieError::Forged));
    }
}

#[test]
fn old_cookie_is_stale_by_its_age() {
    let sealed = keys().seal(&cookie());
    let late = Time::from_nanos(5_000_000_000) + Duration::from_secs(61);
    match keys().open(&sealed, late) {
        Err(CookieError::Stale(inner, by)) => {
            assert_eq!(*inner, cookie());
            assert_eq!(by, Duration::from_secs(1));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn cookie_survives_one_key_change_only() {
    let mut keys = keys();
    let sealed = keys.seal(&cookie());
    assert!(keys.rotation_due(Time::ZERO + Duration::from_secs(120)));
    keys.rotate([8; 32], Time::ZERO + Duration::from_secs(120));
    assert!(keys.open(&sealed, Time::from_nanos(6_000_000_000)).is_ok());
    keys.rotate([9; 32], Time::ZERO + Duration::from_secs(240));
    assert_eq!(keys.open(&sealed, Time::from_nanos(6_000_000_000)), Err(CookieError::Forged));
}
