//! Bundling: DATA chunks of a packet have ascending TSNs and fit it whole.

use super::*;

#[test]
fn small_messages_share_a_packet() {
    let mut fixture = Fixture::new();
    for _ in 0..30 {
        fixture.push(33);
    }
    let packets = fixture.packets(0);
    let counts: Vec<_> = packets.iter().map(Vec::len).collect();
    assert_eq!(counts, [ROOM / 52, 30 - ROOM / 52], "16 + 33 + 3 of padding each");
}

/// A marked chunk that does not fit is not overtaken by a later one that would.
#[test]
fn tsns_of_a_packet_rise() {
    let mut fixture = Fixture::new();
    for len in [1000, 1000, 10] {
        fixture.push(len);
        fixture.packet(0);
    }
    fixture.timeout(0);
    fixture.push(10);
    let tsns: Vec<Vec<_>> = fixture.packets(0).iter().map(|p| p.iter().map(|c| c.tsn).collect()).collect();
    assert_eq!(tsns, [vec![0], vec![1, 2, 3]]);
}

/// Retransmissions and new data may share a packet, retransmissions first.
#[test]
fn new_data_follows_retransmissions_in_a_packet() {
    let mut fixture = Fixture::new();
    fixture.push(100);
    fixture.packet(0);
    fixture.timeout(0);
    fixture.push(100);
    fixture.push(3000);
    let packet = fixture.packet(0);
    let seen: Vec<_> = packet.iter().map(|c| (c.tsn, c.payload.len())).collect();
    assert_eq!(seen, [(0, 100), (1, 100), (2, ROOM - 2 * 116 - 16)]);
}
