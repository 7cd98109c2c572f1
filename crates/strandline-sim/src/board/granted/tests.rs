#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use strandline_wire::chunk::{sack, stream_credit};
use strandline_wire::{IData, Mid, Packet, PacketBuilder, StreamId, VerificationTag};

use super::*;

const INITIAL: u32 = 1024;

fn agreed() -> Granted {
    let mut granted = Granted::default();
    granted.set(true, Some(INITIAL));
    granted
}

/// Returns the bytes of a packet.
fn packet(build: impl FnOnce(&mut PacketBuilder<'_>)) -> Vec<u8> {
    let mut buffer = [0; 1500];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    build(&mut builder);
    let len = builder.finish();
    buffer[..len].to_vec()
}

fn arrive(granted: &mut Granted, tsn: u32, stream: u16, len: usize) {
    let payload = vec![7; len];
    let bytes = packet(|builder| {
        assert!(builder.push(&IData::whole(Tsn(tsn), StreamId(stream), Mid(0), &payload)));
    });
    granted.on_arrival(Packet::parse(&bytes).unwrap().chunks().flatten());
}

fn depart(granted: &mut Granted, build: impl FnOnce(&mut PacketBuilder<'_>)) -> Result<(), Violation> {
    let bytes = packet(build);
    granted.on_departure(Packet::parse(&bytes).unwrap().chunks().flatten())
}

fn acknowledge(granted: &mut Granted, cumulative: u32, gap: Option<(u16, u16)>) -> Result<(), Violation> {
    let blocks = gap.map(|(start, end)| GapBlock { start, end });
    depart(granted, |builder| assert!(sack::write(builder, Tsn(cumulative), 9000, blocks.into_iter(), &[])))
}

fn tell(granted: &mut Granted, cumulative: u32, stream: u16, limit: u32) {
    let entry = stream_credit::Credit { stream: StreamId(stream), accepted: 0, limit };
    let write = |builder: &mut PacketBuilder<'_>| {
        assert_eq!(stream_credit::write(builder, Tsn(cumulative), [entry].into_iter()), 1);
    };
    depart(granted, write).unwrap();
}

#[test]
fn what_was_granted_is_acknowledged_once() {
    let mut granted = agreed();
    for (tsn, stream) in [(10, 1), (12, 1), (11, 2)] {
        arrive(&mut granted, tsn, stream, 512);
    }
    assert!(acknowledge(&mut granted, 10, Some((2, 2))).is_ok());
    arrive(&mut granted, 12, 1, 512);
    assert!(acknowledge(&mut granted, 12, None).is_ok(), "12 counts once");
    arrive(&mut granted, 13, 1, 1);
    assert!(acknowledge(&mut granted, 13, None).is_err());
}

#[test]
fn data_beyond_the_credit_is_not_acknowledged() {
    let mut granted = agreed();
    arrive(&mut granted, 10, 1, 1025);
    assert!(acknowledge(&mut granted, 9, None).is_ok());
    assert!(acknowledge(&mut granted, 9, Some((1, 1))).is_err());
}

/// A full receiver discards what it has reported, and accepts other data of the stream in its place.
#[test]
fn withdrawn_acknowledgements_do_not_count() {
    for (again, is_granted) in [(24, true), (25, false)] {
        let mut granted = agreed();
        arrive(&mut granted, 11, 1, 1000);
        acknowledge(&mut granted, 9, Some((2, 2))).expect("granted");
        acknowledge(&mut granted, 9, None).expect("nothing is acknowledged");
        arrive(&mut granted, 12, 1, 1024);
        acknowledge(&mut granted, 9, Some((3, 3))).expect("granted");
        acknowledge(&mut granted, 9, Some((2, 2))).expect("granted again");
        arrive(&mut granted, 10, 1, again);
        assert_eq!(acknowledge(&mut granted, 11, None).is_ok(), is_granted);
    }
}

#[test]
fn larger_limits_count_once_they_are_told() {
    let mut granted = agreed();
    arrive(&mut granted, 10, 1, 1024);
    arrive(&mut granted, 11, 1, 100);
    assert!(acknowledge(&mut granted, 10, None).is_ok());
    tell(&mut granted, 10, 1, 1124);
    assert!(acknowledge(&mut granted, 11, None).is_ok());
}

#[test]
fn resets_begin_new_accounts() {
    let mut granted = agreed();
    arrive(&mut granted, 10, 1, 1024);
    tell(&mut granted, 9, 1, 4096);
    let numbers = [&7u32.to_be_bytes()[..], &0u32.to_be_bytes(), &10u32.to_be_bytes(), &1u16.to_be_bytes()];
    let request = [&[0, 13, 0, 18][..], &numbers.concat(), &[0, 0]].concat();
    let ask = packet(|builder| {
        builder.push_raw(kind::RE_CONFIG, 0, request.len()).unwrap().copy_from_slice(&request);
    });
    granted.on_arrival(Packet::parse(&ask).unwrap().chunks().flatten());
    let response = [0, 16, 0, 12, 0, 0, 0, 7, 0, 0, 0, 1];
    let answer = |builder: &mut PacketBuilder<'_>| {
        builder.push_raw(kind::RE_CONFIG, 0, response.len()).unwrap().copy_from_slice(&response);
    };
    depart(&mut granted, answer).unwrap();
    arrive(&mut granted, 11, 1, 1024);
    assert!(acknowledge(&mut granted, 11, None).is_ok(), "10 is of the account before");
    arrive(&mut granted, 12, 1, 1);
    assert!(acknowledge(&mut granted, 12, None).is_err(), "so is what was granted");
}

/// A copy of what was acknowledged under the earlier numbers, or before a reset of its stream, is in no new account.
#[test]
fn copies_from_before_a_reset_do_not_count() {
    let asks_all = [0, 15, 0, 8, 0, 0, 0, 7];
    let names = [[0, 16, 0, 20, 0, 0, 0, 7, 0, 0, 0, 1], [0, 0, 0, 50, 0, 0, 0, 60, 0, 0, 0, 0]].concat();
    let says_all = &names[..20];
    let asks_one = [0, 13, 0, 18, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 10, 0, 1, 0, 0];
    let says_one = [0, 16, 0, 12, 0, 0, 0, 7, 0, 0, 0, 1];
    // The request, the answer to it, whether the peer has sent the request, and the first TSN after it.
    let resets: [(&[u8], &[u8], bool, u32); 3] =
        [(&asks_all, says_all, true, 60), (&asks_all, says_all, false, 50), (&asks_one, &says_one, true, 11)];
    for (asks, says, by_peer, first) in resets {
        let mut granted = agreed();
        arrive(&mut granted, 9, 1, 1);
        assert!(acknowledge(&mut granted, 9, None).is_ok());
        arrive(&mut granted, 10, 1, 1000);
        for (value, arrives) in [(asks, by_peer), (says, !by_peer)] {
            let write = |builder: &mut PacketBuilder<'_>| {
                builder.push_raw(kind::RE_CONFIG, 0, value.len()).unwrap().copy_from_slice(value);
            };
            if arrives {
                granted.on_arrival(Packet::parse(&packet(write)).unwrap().chunks().flatten());
            } else {
                depart(&mut granted, write).unwrap();
            }
        }
        arrive(&mut granted, 10, 1, 1000);
        arrive(&mut granted, first, 1, 1024);
        assert!(acknowledge(&mut granted, first, None).is_ok(), "{by_peer} {first}");
        arrive(&mut granted, first + 1, 1, 1);
        assert!(acknowledge(&mut granted, first + 1, None).is_err(), "{by_peer} {first}");
    }
}
