#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use strandline_proto::config::Recovery;
use strandline_proto::time::Time;
use strandline_wire::chunk::stream_credit;
use strandline_wire::{IData, Mid, Packet, PacketBuilder, StreamId, VerificationTag};

use super::*;

const INITIAL: u32 = 2048;

fn agreed() -> Credit {
    let mut credit = Credit::default();
    credit.set(true, Some(INITIAL));
    credit
}

/// Lets the account see a packet.
fn see(credit: &mut Credit, arrives: bool, build: impl FnOnce(&mut PacketBuilder<'_>)) {
    let mut buffer = [0; 500];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    build(&mut builder);
    let len = builder.finish();
    let packet = Packet::parse(&buffer[..len]).unwrap();
    credit.on_chunks(packet.chunks().flatten(), arrives);
}

fn grant(credit: &mut Credit, cumulative: u32, stream: u16, limit: u32) {
    grant_after(credit, (cumulative, 0), stream, limit);
}

/// Credit after this many bytes were accepted.
fn grant_after(credit: &mut Credit, (cumulative, accepted): (u32, u32), stream: u16, limit: u32) {
    let entry = stream_credit::Credit { stream: StreamId(stream), accepted, limit };
    see(credit, true, |builder| {
        assert_eq!(stream_credit::write(builder, Tsn(cumulative), [entry].into_iter()), 1);
    });
}

/// A RE-CONFIG with one parameter of these 32-bit fields and streams.
fn re_config(credit: &mut Credit, arrives: bool, kind: u16, fields: &[u32], streams: &[u16]) {
    let mut value: Vec<u8> = fields.iter().flat_map(|field| field.to_be_bytes()).collect();
    value.extend(streams.iter().flat_map(|stream| stream.to_be_bytes()));
    let header = [kind.to_be_bytes(), (4 + value.len() as u16).to_be_bytes()].concat();
    value.splice(0..0, header);
    see(credit, arrives, |builder| {
        builder
            .push_raw(strandline_wire::chunk::kind::RE_CONFIG, 0, value.len())
            .unwrap()
            .copy_from_slice(&value);
    });
}

const OUTGOING: u16 = 13;
const ALL_NUMBERS: u16 = 15;
const RESPONSE: u16 = 16;
const PERFORMED: u32 = 1;

#[test]
fn new_data_stays_within_the_offer() {
    let mut credit = agreed();
    assert!(credit.on_new_data(Tsn(10), 1, INITIAL).is_ok());
    assert!(credit.on_new_data(Tsn(11), 2, INITIAL).is_ok());
    assert!(credit.on_new_data(Tsn(12), 1, 1).is_err());
}

#[test]
fn credit_counts_for_its_account_only() {
    let mut credit = agreed();
    assert!(credit.on_new_data(Tsn(10), 1, INITIAL).is_ok());
    for (cumulative, stream) in [(9, 1), (10, 2)] {
        grant(&mut credit, cumulative, stream, 1 << 20);
    }
    grant(&mut credit, 10, 1, INITIAL + 100);
    grant(&mut credit, 10, 1, INITIAL + 50);
    assert!(credit.on_new_data(Tsn(11), 1, 100).is_ok());
    assert!(credit.on_new_data(Tsn(12), 1, 1).is_err(), "credit that goes back counts for nothing");
    assert!(credit.on_new_data(Tsn(13), 2, INITIAL + 1).is_err());
}

/// An attacker has skipped data at the receiver, which has therefore accepted less than was sent up to its Cumulative
/// TSN Ack. The sender goes on from there.
#[test]
fn forged_jumps_end_the_account() {
    for (attacked, accepted, right) in
        [(true, INITIAL, false), (true, INITIAL - 6, true), (false, INITIAL - 6, false)]
    {
        let mut credit = agreed();
        credit.attacked = attacked;
        assert!(credit.on_new_data(Tsn(10), 1, INITIAL).is_ok());
        assert!(credit.on_new_data(Tsn(11), 2, 5).is_ok());
        grant_after(&mut credit, (11, accepted), 1, INITIAL + 10);
        assert!(credit.on_new_data(Tsn(12), 1, 10).is_ok());
        // One that was overtaken shows nothing.
        grant_after(&mut credit, (10, 3), 1, INITIAL + 10);
        assert_eq!(credit.on_new_data(Tsn(13), 1, 6).is_ok(), right, "{attacked} {accepted}");
    }
}

#[test]
fn resets_begin_new_accounts() {
    let mut credit = agreed();
    for stream in [1, 2] {
        assert!(credit.on_new_data(Tsn(10), stream, INITIAL).is_ok());
        grant(&mut credit, 10, stream, 2 * INITIAL);
    }
    re_config(&mut credit, false, OUTGOING, &[7, 0, 10], &[1]);
    re_config(&mut credit, true, RESPONSE, &[7, PERFORMED], &[]);
    assert!(credit.on_new_data(Tsn(11), 1, INITIAL).is_ok());
    re_config(&mut credit, true, RESPONSE, &[7, PERFORMED], &[]);
    assert!(credit.on_new_data(Tsn(12), 1, 1).is_err(), "what the old account was granted is gone");
    assert!(credit.on_new_data(Tsn(13), 2, INITIAL).is_ok(), "it was not reset");
    assert!(credit.on_new_data(Tsn(14), 2, 1).is_err());
}

#[test]
fn a_reset_of_all_numbers_begins_all_accounts() {
    let mut credit = agreed();
    assert!(credit.on_new_data(Tsn(10), 1, INITIAL).is_ok());
    re_config(&mut credit, true, ALL_NUMBERS, &[7], &[]);
    for _ in 0..2 {
        re_config(&mut credit, false, RESPONSE, &[7, PERFORMED, 20, 30], &[]);
    }
    assert!(credit.on_new_data(Tsn(20), 1, INITIAL).is_ok());
    re_config(&mut credit, true, ALL_NUMBERS, &[7], &[]);
    re_config(&mut credit, false, RESPONSE, &[7, PERFORMED, 20, 30], &[]);
    assert!(credit.on_new_data(Tsn(21), 1, 1).is_err(), "the response was repeated");
}

/// Sends new data of stream 1 under a tag of the peer; no data if it has no bytes.
fn sends(board: &mut Board, tag: u32, tsn: u32, len: u32) -> Result<(), Violation> {
    let payload = vec![7; len as usize];
    let mut buffer = [0; 3000];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(tag));
    if len > 0 {
        assert!(builder.push(&IData::whole(Tsn(tsn), StreamId(1), Mid(0), &payload)));
    }
    let len = builder.finish();
    let packet = Packet::parse(&buffer[..len]).unwrap();
    board.on_tag(&packet);
    set_credit(board, (true, false), Some(INITIAL), Some(INITIAL));
    board.on_departure(Time::ZERO, &packet, [10, 0, 0, 1].into(), Recovery::Rack)
}

/// The peer restarts, and again before anything is sent to it.
#[test]
fn restarts_begin_new_accounts() {
    for between in [&[][..], &[4], &[4, 5]] {
        let mut board = Board::default();
        assert!(sends(&mut board, 3, 10, INITIAL).is_ok());
        for tag in between {
            assert!(sends(&mut board, *tag, 0, 0).is_ok());
        }
        assert!(sends(&mut board, 6, 1 << 20, INITIAL).is_ok(), "{between:?}");
        assert!(sends(&mut board, 6, (1 << 20) + 1, 1).is_err());
    }
}

/// The tag of the peer's earlier INIT was replaced before anything went under the one in between: the numbers go on.
#[test]
fn collisions_go_on_with_the_account() {
    let mut board = Board::default();
    assert!(sends(&mut board, 3, 10, INITIAL - 1).is_ok());
    assert!(sends(&mut board, 4, 0, 0).is_ok());
    assert!(sends(&mut board, 5, 10, INITIAL - 1).is_ok(), "a retransmission");
    assert!(sends(&mut board, 5, 11, 1).is_ok());
    assert!(sends(&mut board, 5, 12, 1).is_err());
}

/// The peer asks for a reset of all numbers before the first data after its restart, and is answered later.
#[test]
fn requests_right_after_a_restart_count() {
    let mut board = Board::default();
    assert!(sends(&mut board, 3, 10, INITIAL).is_ok());
    assert!(sends(&mut board, 4, 0, 0).is_ok());
    re_config(&mut board.credit, true, ALL_NUMBERS, &[7], &[]);
    assert!(sends(&mut board, 4, 1 << 20, INITIAL).is_ok());
    re_config(&mut board.credit, false, RESPONSE, &[7, PERFORMED, 20, 30], &[]);
    assert!(board.credit.on_new_data(Tsn(20), 1, INITIAL).is_ok());
    assert!(board.credit.on_new_data(Tsn(21), 1, 1).is_err());
}
