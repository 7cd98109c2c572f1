use super::*;

fn source(number: u32) -> Flow {
    let address = SocketAddr::new(core::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into(), 5060);
    Flow::to(Protocol::Udp, address)
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut replaced = ReplacedFlows::default();
    let new = source(0);
    let count = REPLACED_MAX as u32 + 10;
    for number in 1..=count {
        replaced.note(key(&source(number)).unwrap(), Moved::Flow(new));
    }
    assert_eq!((replaced.by.len(), replaced.order.len()), (REPLACED_MAX, REPLACED_MAX));
    assert!(replaced.successor(&source(10)).is_none());
    assert!(replaced.successor(&source(11)).is_some());
    // One flow that is replaced again and again is one entry.
    for _ in 0..2 * REPLACED_MAX {
        replaced.note(key(&source(1)).unwrap(), Moved::Flow(new));
        replaced.on_flow_used(&source(2));
    }
    assert_eq!((replaced.by.len(), replaced.order.len()), (1, REPLACED_MAX));
    replaced.on_flow_used(&source(1));
    assert!(replaced.successor(&source(1)).is_none());
}
