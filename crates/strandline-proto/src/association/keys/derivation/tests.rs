use super::*;

const SECRET: &[u8] = b"secret";

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap())
        .collect()
}

/// RFC 2202 case 2 and RFC 4231 case 2, with the zeros of the MAC in between left out.
#[test]
fn algorithms_are_the_standard_ones() {
    let key = Prepared { sha1: prepare(b"Jefe"), sha256: prepare(b"Jefe") };
    let mut mac = [0; MAC_LEN_MAX];
    finish(&key.sha1, [b"what do ya want ", b"for ", b"nothing?"], &mut mac);
    assert_eq!(mac[..20], bytes("effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"));
    finish(&key.sha256, [b"what do ya want ", b"for ", b"nothing?"], &mut mac);
    assert_eq!(mac[..], bytes("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"));
}

#[test]
fn a_mac_covers_every_byte() {
    let key = Prepared::new(SECRET, b"vectors");
    for algorithm in [Algorithm::Sha1, Algorithm::Sha256] {
        let (fields, rest) = ([15, 0, 0, 28, 0, 0, 0, 1], [7; 40]);
        let whole = key.mac(algorithm, &fields, &rest);
        let mac = &whole[..algorithm.mac_len()];
        assert!(key.verifies(algorithm, &fields, mac, &rest));
        for at in 0..fields.len() {
            let mut changed = fields;
            changed[at] ^= 1;
            assert!(!key.verifies(algorithm, &changed, mac, &rest));
        }
        for at in 0..rest.len() {
            let mut changed = rest;
            changed[at] ^= 0x80;
            assert!(!key.verifies(algorithm, &fields, mac, &changed));
        }
        for at in 0..mac.len() {
            let mut changed = mac.to_vec();
            changed[at] ^= 1;
            assert!(!key.verifies(algorithm, &fields, &changed, &rest));
        }
        assert!(!key.verifies(algorithm, &fields, &mac[..4], &rest));
        assert!(!key.verifies(algorithm, &fields, &[], &rest));
        assert!(!Prepared::new(b"other", b"vectors").verifies(algorithm, &fields, mac, &rest));
    }
}

#[test]
fn vectors_are_ordered_as_numbers() {
    let ordered: [(&[u8], &[u8]); 5] = [
        (&[1], &[2]),
        (&[2], &[1, 0]),
        // Leading zeros do not count.
        (&[0, 0, 9], &[1, 0]),
        (&[0, 1], &[2]),
        // Equal numbers: the shorter vector comes first.
        (&[7], &[0, 7]),
    ];
    for (first, second) in ordered {
        let wanted = [first, second].concat();
        assert_eq!(concatenate(first, second), wanted);
        assert_eq!(concatenate(second, first), wanted);
    }
    assert_eq!(concatenate(&[3], &[3]), [3, 3]);
}

#[test]
fn rings_follow_rfc_6458() {
    let mut ring = KeyRing::default();
    let (null, first, second) = (KeyId(0), KeyId(1), KeyId(2));
    assert_eq!(ring.active(), null);
    assert_eq!(ring.activate(first), Err(KeyError::UnknownKey(first)));
    assert_eq!(ring.set(first, SharedKey::new(SECRET)), Ok(()));
    assert_eq!(ring.deactivate(null), Err(KeyError::InUse(null)));
    assert_eq!(ring.activate(first), Ok(()));
    assert_eq!(ring.delete(null), Err(KeyError::InUse(null)));
    assert_eq!(ring.deactivate(null), Ok(true));
    assert_eq!(ring.deactivate(null), Ok(false));
    assert_eq!(ring.activate(null), Err(KeyError::Deactivated(null)));
    assert_eq!(ring.delete(null), Ok(()));
    assert_eq!(ring.delete(null), Err(KeyError::UnknownKey(null)));
    assert_eq!(ring.delete(first), Err(KeyError::InUse(first)));
    assert_eq!(ring.deactivate(second), Err(KeyError::UnknownKey(second)));
    let ids: Vec<_> = ring.derive(b"").into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [first]);
}

#[test]
fn rings_have_a_limit() {
    let mut ring = KeyRing::default();
    for id in 1..KEYS_MAX {
        assert_eq!(ring.set(KeyId(id as u16), SharedKey::default()), Ok(()));
    }
    assert_eq!(ring.set(KeyId(0xffff), SharedKey::default()), Err(KeyError::TooMany));
    assert_eq!(ring.set(KeyId(1), SharedKey::new(SECRET)), Ok(()));
}
