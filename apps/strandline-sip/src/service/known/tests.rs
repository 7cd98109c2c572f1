use super::*;
use crate::transaction::Protocol;

fn flow(protocol: Protocol, host: u8, port: u16) -> Flow {
    Flow::to(protocol, ([192, 0, 2, host], port).into())
}

#[test]
fn who_has_registered_is_known_for_an_hour_at_least() {
    let mut known = Known::new([7; 16]);
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
    let mut known = Known::new([7; 16]);
    let old = Flow { connection: 7, ..flow(Protocol::Tcp, 1, 40_000) };
    known.insert(Time::ZERO, &old);
    assert!(known.contains(&Flow { connection: 8, ..flow(Protocol::Tcp, 1, 40_001) }));
}
