//! Made-up messages that are given up.

use strandline_proto::config::Recovery;
use strandline_wire::chunk::i_forward_tsn::{self, SkippedMessage};
use strandline_wire::chunk::{CookieAck, forward_tsn};
use strandline_wire::number::{Fsn, Mid};
use strandline_wire::{Data, IData, Packet, PacketBuilder, Ssn, Tsn, VerificationTag};

use super::*;

const TO: core::net::IpAddr = core::net::IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1));

fn departs(board: &mut Board, write: impl FnOnce(&mut PacketBuilder<'_>)) -> Result<(), Violation> {
    departs_under(board, 3, write)
}

/// Sends a packet under this tag of the peer.
fn departs_under(
    board: &mut Board,
    tag: u32,
    write: impl FnOnce(&mut PacketBuilder<'_>),
) -> Result<(), Violation> {
    let mut buffer = [0; 1500];
    let mut packet = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(tag));
    write(&mut packet);
    let len = packet.finish();
    let packet = Packet::parse(&buffer[..len]).expect("just built");
    board.on_tag(&packet);
    board.on_departure(Time::ZERO, &packet, TO, Recovery::Rack)
}

/// Sends a chunk of message `message` on stream 7 with that SSN.
fn sends(board: &mut Board, tsn: u32, message: u32, ending: bool) -> Result<(), Violation> {
    let of = Data::whole(Tsn(tsn), StreamId(7), Ssn(message as u16), b"data");
    let data = Data { ppid: Ppid(message), ending, ..of };
    departs(board, |packet| assert!(packet.push(&data)))
}

fn skips(board: &mut Board, tsn: u32, listed: &[(u16, u16)]) -> Result<(), Violation> {
    let listed = listed.iter().map(|(stream, ssn)| (StreamId(*stream), Ssn(*ssn)));
    departs(board, |packet| assert!(forward_tsn::write(packet, Tsn(tsn), listed)))
}

/// Messages 0 to 2 with TSNs 1 to 3, the first of which is given up.
fn three() -> Board {
    let mut board = Board::default();
    for message in 0..3 {
        sends(&mut board, 1 + message, message, true).expect("new data");
    }
    assert_eq!(board.on_abandoned(Time::ZERO, Ppid(0)), 4);
    board
}

#[test]
fn forward_tsn_skips_what_was_given_up() {
    skips(&mut three(), 1, &[(7, 0)]).expect("right");
    assert!(skips(&mut three(), 2, &[(7, 1)]).is_err(), "message 1 was not given up");
    assert!(skips(&mut three(), 0, &[]).is_err(), "nothing is skipped");
    assert!(skips(&mut three(), 1, &[]).is_err(), "the stream is missing");
    assert!(skips(&mut three(), 1, &[(7, 1)]).is_err(), "another SSN");
    assert!(skips(&mut three(), 4, &[(7, 0)]).is_err(), "beyond what was sent");
}

#[test]
fn message_given_up_is_not_sent_again() {
    assert!(sends(&mut three(), 1, 0, true).is_err());
    let mut board = three();
    board.excuse(None);
    sends(&mut board, 2, 1, true).expect("another message");
}

#[test]
fn rest_of_message_has_one_tsn() {
    let mut board = Board::default();
    sends(&mut board, 1, 0, false).expect("new data");
    assert!(sends(&mut board, 3, 1, true).is_err(), "2 is left out");
    board.on_abandoned(Time::ZERO, Ppid(0));
    sends(&mut board, 3, 1, true).expect("2 is the rest of message 0");
    skips(&mut board, 2, &[(7, 0)]).expect("right");
}

/// With I-DATA fragments of several messages alternate, and only the first one has the PPID.
#[test]
fn interleaved_messages_are_told_apart() {
    let mut board = Board::default();
    for (tsn, message, fsn) in [(1, 0, 0), (2, 1, 0), (3, 0, 1), (4, 1, 1)] {
        let whole = IData::whole(Tsn(tsn), StreamId(message as u16), Mid(0), b"data");
        let ppid = Ppid(if fsn == 0 { message } else { 0 });
        let data = IData { ppid, fsn: Fsn(fsn), beginning: fsn == 0, ending: false, ..whole };
        departs(&mut board, |packet| assert!(packet.push(&data))).expect("new data");
    }
    assert_eq!(board.on_abandoned(Time::ZERO, Ppid(1)), 8);
    assert_eq!(board.on_abandoned(Time::ZERO, Ppid(0)), 8);
    // The rest of each has a TSN.
    assert_eq!(board.next_tsn(), Some(Tsn(7)));
    let both =
        [0, 1].map(|stream| SkippedMessage { stream: StreamId(stream), unordered: false, mid: Mid(0) });
    departs(&mut board, |packet| assert!(i_forward_tsn::write(packet, Tsn(6), both.into_iter())))
        .expect("right");
}

/// The INITs of both sides met, and the first data under the peer's other tag is skipped (RFC 9260 section
/// 5.2.4 action B).
#[test]
fn data_is_skipped_under_another_tag() {
    let mut board = three();
    departs_under(&mut board, 9, |packet| assert!(packet.push(&CookieAck))).expect("no data");
    assert_eq!(board.on_abandoned(Time::ZERO, Ppid(1)), 4);
    let skips = |board: &mut Board, last: u32, ssn: u16| {
        let listed = [(StreamId(7), Ssn(ssn))].into_iter();
        departs_under(board, 9, |packet| assert!(forward_tsn::write(packet, Tsn(last), listed)))
    };
    skips(&mut board, 2, 1).expect("both were given up");
    assert!(skips(&mut board, 3, 2).is_err(), "message 2 was not given up");
}

#[test]
fn forward_tsn_is_not_repeated_without_end() {
    let mut board = three();
    for _ in 0..3 {
        skips(&mut board, 1, &[(7, 0)]).expect("two answers repeat it");
    }
    assert!(skips(&mut board, 1, &[(7, 0)]).is_err());
    board.excuse(None);
    skips(&mut board, 1, &[(7, 0)]).expect("a time-out repeats it");
    assert!(skips(&mut board, 1, &[(7, 0)]).is_err());
}

/// Its path is removed, and it is repeated on the next one. The removal of another path allows less.
#[test]
fn forward_tsn_is_repeated_on_each_path() {
    let mut board = three();
    for _ in 0..3 {
        for _ in 0..3 {
            skips(&mut board, 1, &[(7, 0)]).expect("two answers repeat it");
        }
        board.on_removed(TO);
    }
    for _ in 0..3 {
        skips(&mut board, 1, &[(7, 0)]).expect("two answers repeat it");
    }
    assert!(skips(&mut board, 1, &[(7, 0)]).is_err(), "nothing was removed again");
    let mut board = three();
    for _ in 0..3 {
        skips(&mut board, 1, &[(7, 0)]).expect("two answers repeat it");
    }
    board.on_removed([192, 0, 2, 77].into());
    skips(&mut board, 1, &[(7, 0)]).expect("once for the path that was removed");
    assert!(skips(&mut board, 1, &[(7, 0)]).is_err(), "it went elsewhere");
}

/// The message that never existed is skipped for a stream that was given up, and takes a TSN.
#[test]
fn stream_that_was_given_up() {
    let mut board = three();
    assert!(skips(&mut three(), 4, &[(7, 3)]).is_err(), "nobody has given it up");
    assert_eq!(board.on_abandoned(Time::ZERO, Ppid(1)), 4);
    assert_eq!(board.on_abandoned(Time::ZERO, Ppid(2)), 4);
    on_stream_reset(&mut board, 7);
    skips(&mut board, 4, &[(7, 3)]).expect("one TSN beyond what was sent");
    assert!(sends(&mut board, 6, 4, true).is_err(), "TSN 5 is next");
    let mut board = Board::default();
    on_stream_reset(&mut board, 9);
    skips(&mut board, 1, &[(9, 0)]).expect("nothing was sent on it");
    sends(&mut board, 2, 0, true).expect("the next TSN");
}

/// A FORWARD TSN went to an address that was removed since, and the address is back.
#[test]
fn forward_tsn_of_removed_address_answers_nothing() {
    for removed in [false, true] {
        let mut board = three();
        skips(&mut board, 1, &[(7, 0)]).expect("right");
        if removed {
            board.on_removed(TO);
        }
        board.on_skipped(Time::ZERO, Tsn(1));
        assert_eq!(board.has_delivered(TO), !removed);
    }
}
