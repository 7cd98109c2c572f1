use super::*;

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn tags_expire_and_are_bounded() {
    let mut used = UsedCookies::new(MINUTE, (1, 2));
    used.insert_tag(Time::ZERO, VerificationTag(1));
    assert!(used.has_tag(VerificationTag(1)));
    used.insert_tag(Time::ZERO + MINUTE, VerificationTag(2));
    assert!(!used.has_tag(VerificationTag(1)));
    for tag in 0..USED_MAX as u32 {
        used.insert_tag(Time::ZERO + MINUTE, VerificationTag(10 + tag));
    }
    assert!(!used.has_tag(VerificationTag(2)));
    assert!(used.order.len() <= USED_MAX && used.known.len() <= USED_MAX);
}

#[test]
fn inits_differ_by_tag_address_and_ports() {
    let init = |tag: u32, address: [u8; 4], peer_port: u16, local_port: u16| PeerInit {
        tag: VerificationTag(tag),
        address: address.into(),
        peer_port,
        local_port,
    };
    let mut used = UsedCookies::new(MINUTE, (1, 2));
    used.insert_init(Time::ZERO, &init(7, [10, 0, 0, 1], 5000, 5001));
    assert!(used.has_init(&init(7, [10, 0, 0, 1], 5000, 5001)));
    assert!(!used.has_init(&init(8, [10, 0, 0, 1], 5000, 5001)));
    assert!(!used.has_init(&init(7, [10, 0, 0, 2], 5000, 5001)));
    assert!(!used.has_init(&init(7, [10, 0, 0, 1], 5001, 5001)));
    assert!(!used.has_init(&init(7, [10, 0, 0, 1], 5000, 5000)));
    assert!(!used.has_tag(VerificationTag(7)));
}
