use super::*;

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn tags_expire_and_are_bounded() {
    let mut spent = SpentCookies::new(MINUTE, (1, 2));
    spent.insert_tag(Time::ZERO, VerificationTag(1));
    assert!(spent.has_tag(VerificationTag(1)));
    spent.insert_tag(Time::ZERO + MINUTE, VerificationTag(2));
    assert!(!spent.has_tag(VerificationTag(1)));
    for tag in 0..SPENT_MAX as u32 {
        spent.insert_tag(Time::ZERO + MINUTE, VerificationTag(10 + tag));
    }
    assert!(!spent.has_tag(VerificationTag(2)));
    assert!(spent.order.len() <= SPENT_MAX && spent.known.len() <= SPENT_MAX);
}

#[test]
fn inits_differ_by_tag_address_and_ports() {
    let init = |tag: u32, address: [u8; 4], peer_port: u16, local_port: u16| PeerInit {
        tag: VerificationTag(tag),
        address: address.into(),
        peer_port,
        local_port,
    };
    let mut spent = SpentCookies::new(MINUTE, (1, 2));
    spent.insert_init(Time::ZERO, &init(7, [10, 0, 0, 1], 5000, 5001));
    assert!(spent.has_init(&init(7, [10, 0, 0, 1], 5000, 5001)));
    assert!(!spent.has_init(&init(8, [10, 0, 0, 1], 5000, 5001)));
    assert!(!spent.has_init(&init(7, [10, 0, 0, 2], 5000, 5001)));
    assert!(!spent.has_init(&init(7, [10, 0, 0, 1], 5001, 5001)));
    assert!(!spent.has_init(&init(7, [10, 0, 0, 1], 5000, 5000)));
    assert!(!spent.has_tag(VerificationTag(7)));
}
