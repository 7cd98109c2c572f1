use core::time::Duration;

use super::*;

fn budget(rate: u32) -> VerificationBudget {
    VerificationBudget::new(rate, Shard::default(), (1, 2), Time::ZERO)
}

fn v4(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

const PEER: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(198, 51, 100, 1));

/// Returns another peer for each address and number, so that only the limits of addresses and of all peers apply.
fn peer_of(address: IpAddr, number: u32) -> IpAddr {
    let bits = match address {
        IpAddr::V4(v4) => v4.to_bits(),
        IpAddr::V6(v6) => v6.to_bits() as u32,
    };
    IpAddr::from((bits + number * 65_537).to_be_bytes())
}

/// Returns how many of `asked` HEARTBEATs may be sent.
fn taken(budget: &mut VerificationBudget, now: Time, address: IpAddr, asked: u32) -> u32 {
    (0..asked).map(|number| u32::from(budget.take(now, peer_of(address, number), address))).sum()
}

#[test]
fn an_address_gets_five_a_second() {
    let mut budget = budget(10_000);
    let mut now = Time::ZERO;
    assert_eq!(taken(&mut budget, now, v4(1), 100), 5);
    for _ in 0..600 {
        now += Duration::from_millis(100);
        taken(&mut budget, now, v4(1), 100);
    }
    let before = taken(&mut budget, now, v4(2), 100);
    assert_eq!(before, 5, "another address has its own");
    now += Duration::from_secs(1);
    assert_eq!(taken(&mut budget, now, v4(1), 100), 5);
    now += Duration::from_secs(100_000);
    assert_eq!(taken(&mut budget, now, v4(1), 100), 5);
}

/// A peer can list another host's address in associations with every shard.
#[test]
fn shards_share_the_limit_of_an_address() {
    for (bits, at_once) in [(0, 5), (1, 6), (2, 8), (3, 8), (6, 64)] {
        let shards = (0..1 << bits).map(|index| Shard { index, bits });
        let new = |shard| VerificationBudget::new(10_000, shard, (1, 2), Time::ZERO);
        let mut budgets: Vec<VerificationBudget> = shards.map(new).collect();
        let mut all = |now| -> u32 { budgets.iter_mut().map(|shard| taken(shard, now, v4(1), 10)).sum() };
        assert_eq!(all(Time::ZERO), at_once, "{bits} bits");
        let later: u32 = (1..=6_400).map(|step| all(Time::ZERO + Duration::from_millis(step * 100))).sum();
        assert_eq!(later, 5 * 640, "{bits} bits");
    }
}

#[test]
fn fractions_of_a_second_add_up() {
    let mut budget = budget(10_000);
    let mut sent = 0;
    for step in 0..10_000 {
        let now = Time::ZERO + Duration::from_millis(step * 7);
        sent += taken(&mut budget, now, v4(1), 3);
    }
    assert_eq!(sent, 5 + 5 * 70 - 1, "70 s, the last of which is not quite over");
}

#[test]
fn all_addresses_together_have_a_limit() {
    let mut budget = budget(1000);
    let addresses = || (0..100_000u32).map(|n| IpAddr::from((0x0a00_0000 + n).to_be_bytes()));
    let all: u32 = addresses().map(|address| taken(&mut budget, Time::ZERO, address, 1)).sum();
    assert_eq!(all, 250);
    let now = Time::ZERO + Duration::from_millis(100);
    let all: u32 = addresses().map(|address| taken(&mut budget, now, address, 1)).sum();
    assert_eq!(all, 100);
}

#[test]
fn what_is_answered_does_not_count() {
    let mut budget = budget(100);
    for _ in 0..10_000 {
        assert!(budget.take(Time::ZERO, PEER, v4(1)));
        budget.on_answer(PEER, v4(1));
    }
    // More may be in flight to an address that answers, up to a limit.
    assert_eq!(taken(&mut budget, Time::ZERO, v4(1), 100), 25);
    budget.on_answer(PEER, v4(2));
    let later = Time::ZERO + Duration::from_millis(250);
    assert_eq!(taken(&mut budget, later, v4(1), 100), 25);
    let left = taken(&mut budget, later + Duration::from_secs(1), v4(1), 100);
    assert_eq!(left, 64 - 25 - 25, "nothing is added while there are more than five");
}

#[test]
fn an_ipv6_network_shares_a_place() {
    let mut budget = budget(10_000);
    let hosts = (0..100u16).map(|host| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, host]));
    let sent: u32 = hosts.map(|host| taken(&mut budget, Time::ZERO, host, 1)).sum();
    assert_eq!(sent, 5);
    assert_eq!(taken(&mut budget, Time::ZERO, "::ffff:192.0.2.1".parse().unwrap(), 9), 5);
    assert_eq!(taken(&mut budget, Time::ZERO, v4(1), 9), 0, "an IPv4 address in the other notation");
}

#[test]
fn one_peer_leaves_room_for_others() {
    let mut budget = budget(1000);
    let addresses = |first: u32| (first..first + 1000).map(|n| IpAddr::from((0x0a00_0000 + n).to_be_bytes()));
    let sent = |budget: &mut VerificationBudget, now, peer, first| -> u32 {
        addresses(first).map(|address| u32::from(budget.take(now, peer, address))).sum()
    };
    assert_eq!(sent(&mut budget, Time::ZERO, PEER, 0), 62, "a quarter of the burst of 250");
    assert_eq!(sent(&mut budget, Time::ZERO, v4(1), 1000), 62);
    let now = Time::ZERO + Duration::from_millis(200);
    assert_eq!(sent(&mut budget, now, PEER, 2000), 50, "250 a second");
    // What is answered counts for nobody.
    let mut all = 0;
    for address in addresses(3000) {
        all += u32::from(budget.take(now, v4(2), address));
        budget.on_answer(v4(2), address);
    }
    assert_eq!(all, 1000);
}
