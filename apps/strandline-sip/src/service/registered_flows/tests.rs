use super::*;
use crate::transaction::Protocol;

fn flow(protocol: Protocol, host: u8, port: u16) -> Flow {
    Flow::to(protocol, ([192, 0, 2, host], port).into())
}

#[test]
fn registered_source_is_known_for_an_hour() {
    let mut known = RegisteredFlows::new([7; 16]);
    let udp = flow(Protocol::Udp, 1, 5060);
    known.insert(Time::ZERO, &udp);
    assert!(known.contains(&udp));
    assert!(!known.contains(&flow(Protocol::Udp, 1, 5061)) && !known.contains(&flow(Protocol::Tcp, 1, 5060)));
    known.insert(Time::from_millis(TURN_MS + 1), &flow(Protocol::Udp, 2, 5060));
    assert!(known.contains(&udp));
    known.insert(Time::from_millis(2 * TURN_MS + 2), &flow(Protocol::Udp, 2, 5060));
    assert!(!known.contains(&udp) && known.contains(&flow(Protocol::Udp, 2, 5060)));
}

#[test]
fn a_phone_that_connects_anew_is_known() {
    let mut known = RegisteredFlows::new([7; 16]);
    let old = Flow { connection: 7, ..flow(Protocol::Tcp, 1, 40_000) };
    known.insert(Time::ZERO, &old);
    assert!(known.contains(&Flow { connection: 8, ..flow(Protocol::Tcp, 1, 40_001) }));
}

#[test]
fn flows_fall_into_places_all_over_the_filter() {
    let known = RegisteredFlows::new(*b"0123456789abcdef");
    let mut places = std::collections::HashSet::new();
    let (mut words, mut bits) = (vec![0u32; 64], vec![0u32; 64]);
    for number in 0..50_000u32 {
        let address = match number % 2 {
            0 => IpAddr::V4((0x0a00_0000 | number).into()),
            _ => IpAddr::V6(((0x2001_0db8_u128 << 96) | u128::from(number) << 64 | 1).into()),
        };
        let port = 1024 + (number % 7) as u16;
        let (word, bit) = known.place(&Flow::to(Protocol::Udp, (address, port).into()));
        places.insert((word, bit));
        words[word / (BITS / 64 / 64)] += 1;
        bits[bit.trailing_zeros() as usize] += 1;
    }
    // Of so many 300 would collide by chance: half of their square by the number of bits.
    assert!(places.len() > 49_500, "{}", places.len());
    // 781 each, with a standard deviation of 28.
    assert!(words.iter().chain(&bits).all(|count| (600..960).contains(count)), "{words:?} {bits:?}");
    let other = RegisteredFlows::new(*b"another key.....");
    let flow = flow(Protocol::Udp, 1, 5060);
    assert_ne!(known.place(&flow), other.place(&flow));
}
