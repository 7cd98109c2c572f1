//! Fragmentation.

use super::*;

#[test]
fn long_message_is_cut_into_full_packets() {
    let mut fixture = Fixture::new();
    fixture.push(3 * FULL + 1);
    let chunks = fixture.packets(0).concat();
    let cut: Vec<_> = chunks.iter().map(|c| (c.tsn, c.payload.len(), c.beginning, c.ending, c.ssn)).collect();
    let expected = [
        (0, FULL, true, false, 0),
        (1, FULL, false, false, 0),
        (2, FULL, false, false, 0),
        (3, 1, false, true, 0),
    ];
    assert_eq!(cut, expected);
    let whole: Vec<u8> = chunks.into_iter().flat_map(|chunk| chunk.payload).collect();
    assert_eq!(whole, message(3 * FULL + 1));
}

#[test]
fn message_fitting_a_packet_is_not_fragmented() {
    let mut fixture = Fixture::new();
    fixture.push(100);
    fixture.push(FULL);
    fixture.push(FULL - 1);
    let sizes: Vec<Vec<_>> =
        fixture.packets(0).iter().map(|p| p.iter().map(|c| c.payload.len()).collect()).collect();
    assert_eq!(sizes, [vec![100], vec![FULL], vec![FULL - 1]]);
}

/// A fragment fills the room that another chunk left in the packet.
#[test]
fn fragments_use_the_rest_of_a_packet() {
    let mut fixture = Fixture::new();
    fixture.push(101);
    fixture.push(2 * FULL);
    fixture.push(50);
    let packets = fixture.packets(0);
    let used: Vec<usize> = packets.iter().map(|packet| packet.iter().map(Sent::size).sum()).collect();
    assert_eq!(used[..2], [ROOM, ROOM], "filled to the last byte");
    let flags: Vec<_> = packets[0].iter().map(|c| (c.beginning, c.ending)).collect();
    assert_eq!(flags, [(true, true), (true, false)]);
    assert_eq!(packets[2].len(), 2, "the next message follows in the last fragment's packet");
}

#[test]
fn very_small_fragments_are_not_worth_their_header() {
    let mut fixture = Fixture::new();
    fixture.push(2 * FULL);
    assert_eq!(fixture.new_chunk(0, 16 + 60), None);
    assert_eq!(fixture.new_chunk(0, 16 + 67).unwrap().payload.len(), 64);
    assert_eq!(fixture.new_chunk(0, 19), None);
    assert_eq!(fixture.new_chunk(0, 0), None);
    let tiny = fixture.out.next_new(fixture.now, at(0), 30, 30).unwrap();
    assert_eq!(tiny.payload.len(), 12, "an empty packet takes what it can");
}

/// "it cannot be re-fragmented": the caller learns the size and lets IP fragment it.
#[test]
fn fragment_keeps_its_size_when_mtu_falls() {
    let mut fixture = Fixture::with_outstanding(1);
    fixture.timeout(0);
    assert_eq!(fixture.again(0, ROOM - 4), None);
    let size = fixture.out.retransmission().unwrap().size;
    assert_eq!(size, ROOM);
    assert_eq!(fixture.again(0, size).unwrap().payload.len(), FULL);
}

/// Fragments follow the current path MTU.
#[test]
fn later_fragments_follow_the_path_mtu() {
    let mut fixture = Fixture::new();
    fixture.push(3000);
    let sizes = [ROOM, 576, 9000]
        .map(|room| fixture.out.next_new(fixture.now, at(0), room, room).unwrap().payload.len());
    assert_eq!(sizes, [FULL, 560, 3000 - FULL - 560]);
}

/// Fragments of one message have successive TSNs: no other message comes between.
#[test]
fn message_once_begun_is_sent_to_its_end() {
    let mut fixture = Fixture::new();
    fixture.push_on(1, 4 * FULL);
    fixture.push_on(2, 10);
    assert_eq!(fixture.new_chunk(0, ROOM).unwrap().stream, 1);
    fixture.push_on(0, 10);
    let streams: Vec<_> = fixture.packets(0).concat().iter().map(|c| c.stream).collect();
    assert_eq!(streams, [1, 1, 1, 2, 0]);
}

/// The packet of the COOKIE ECHO takes a part of a message that would fit an empty packet.
#[test]
fn any_message_is_fragmented_on_request() {
    let mut fixture = Fixture::new();
    fixture.push(1000);
    let first = fixture.out.next_new(fixture.now, at(0), 800, 800).unwrap();
    assert_eq!((first.payload.len(), first.ending), (784, false));
    let rest = fixture.out.next_new(fixture.now, at(0), ROOM, ROOM).unwrap();
    assert_eq!((rest.payload.len(), rest.ending, rest.beginning), (216, true, false));
}

/// A chunk's length field is 16 bits wide.
#[test]
fn chunk_fits_its_length_field() {
    let mut fixture = Fixture::new();
    fixture.push(100_000);
    let first = fixture.out.next_new(fixture.now, at(0), 200_000, 200_000).unwrap();
    assert_eq!(first.payload.len(), 65_516);
    assert_eq!(
        fixture.out.next_new(fixture.now, at(0), 200_000, 200_000).unwrap().payload.len(),
        100_000 - 65_516
    );
}
