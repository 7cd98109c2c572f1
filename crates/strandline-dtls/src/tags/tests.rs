use strandline_wire::PacketBuilder;
use strandline_wire::number::VerificationTag;

use super::*;

fn packet(ports: (u16, u16), tag: u32, kind: u8, value: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; 200];
    let mut builder = PacketBuilder::new(&mut buffer, ports.0, ports.1, VerificationTag(tag));
    builder.push_raw(kind, 0, value.len()).unwrap().copy_from_slice(value);
    let len = builder.finish();
    buffer.truncate(len);
    buffer
}

fn setup(ports: (u16, u16), tag: u32, kind: u8, initiate: u32) -> Vec<u8> {
    let mut value = initiate.to_be_bytes().to_vec();
    value.extend([0, 1, 0, 0, 0, 10, 0, 10, 0, 0, 0, 1]);
    packet(ports, tag, kind, &value)
}

/// The server's side of an association with the tags 7 (the peer's) and 9 over connection 1.
fn with_one() -> Tags {
    let mut tags = Tags::default();
    assert_eq!(tags.on_inbound(1, &setup((1, 2), 0, kind::INIT, 7)), Inbound::Init(vec![]));
    assert_eq!(tags.on_outbound(&setup((2, 1), 7, kind::INIT_ACK, 9)), Outbound::Over(1));
    tags
}

#[test]
fn cookies_pass_only_with_tags_that_were_given() {
    let mut tags = with_one();
    let cookie = |tag| packet((1, 2), tag, kind::COOKIE_ECHO, &[1, 2, 3, 4]);
    assert_eq!(tags.on_inbound(1, &cookie(9)), Inbound::Pass);
    assert_eq!(tags.on_inbound(2, &cookie(9)), Inbound::Drop);
    assert_eq!(tags.on_inbound(1, &cookie(10)), Inbound::Drop, "no INIT ACK had this tag");
    assert_eq!(
        tags.on_inbound(1, &packet((1, 2), 10, kind::DATA, &[0; 16])),
        Inbound::Pass,
        "out of the blue"
    );
}

#[test]
fn packets_leave_over_their_connection_alone() {
    let mut tags = with_one();
    assert_eq!(tags.on_outbound(&packet((2, 1), 7, kind::DATA, &[0; 16])), Outbound::Over(1));
    assert_eq!(tags.on_outbound(&packet((2, 1), 8, kind::DATA, &[0; 16])), Outbound::Drop);
    assert_eq!(tags.on_outbound(&packet((2, 3), 7, kind::DATA, &[0; 16])), Outbound::Drop, "other ports");
    assert_eq!(tags.on_outbound(&packet((2, 1), 8, kind::ABORT, &[])), Outbound::Stateless);
}

#[test]
fn unused_tags_are_forgotten_by_the_second_sweep() {
    let mut tags = with_one();
    for used in [true, false, true, false] {
        tags.begin_sweep();
        assert!(!tags.sweep(|_| used));
        assert_eq!(tags.connection_of(9), Some(1));
    }
    tags.begin_sweep();
    tags.sweep(|_| false);
    assert!(tags.is_empty());
    assert!(!tags.has_some(1));
}

#[test]
fn a_lost_connection_names_its_associations() {
    let mut tags = with_one();
    assert_eq!(tags.forget(2), []);
    assert_eq!(tags.forget(1), [Orphan { local_tag: 9, local_port: 2, peer_port: 1, is_answered: true }]);
    assert!(tags.is_empty());
}

#[test]
fn unanswered_inits_have_a_limit() {
    let mut tags = with_one();
    for tag in 100..100_000 {
        tags.on_inbound(1, &setup((1, 2), 0, kind::INIT, tag));
        assert!(tags.remote.len() <= ANSWERS_MAX + 2);
    }
    assert_eq!(tags.on_outbound(&packet((2, 1), 7, kind::DATA, &[0; 16])), Outbound::Over(1));
}
