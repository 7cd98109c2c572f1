//! Made-up packets, retransmitted with a reason and without.

use strandline_proto::stats::AssociationState;
use strandline_wire::chunk::{Data, Shutdown, nr_sack, sack};
use strandline_wire::{GapBlock, PacketBuilder, Ppid, Ssn, StreamId, VerificationTag};

use super::*;

mod non_renegable;
mod removed;
mod shutdown;

const TO: [u8; 4] = [10, 0, 0, 1];

/// Bytes of a chunk that these tests send, header included.
const BYTES: u32 = 1016;

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// Sends a packet with one chunk of DATA.
fn sends(board: &mut Board, ms: u64, tsn: u32) -> Result<(), Violation> {
    sends_to(board, ms, tsn, TO.into())
}

fn sends_to(board: &mut Board, ms: u64, tsn: u32, to: IpAddr) -> Result<(), Violation> {
    sends_under(board, ms, 3, (tsn, to))
}

/// Sends it under this tag of the peer.
fn sends_under(board: &mut Board, ms: u64, tag: u32, (tsn, to): (u32, IpAddr)) -> Result<(), Violation> {
    let mut buffer = [0; 1500];
    let mut packet = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(tag));
    assert!(packet.push(&Data {
        tsn: Tsn(tsn),
        stream: StreamId(0),
        ssn: Ssn(0),
        ppid: Ppid(0),
        unordered: false,
        beginning: true,
        ending: true,
        immediate: false,
        payload: &[0; 1000],
    }));
    let len = packet.finish();
    let packet = Packet::parse(&buffer[..len]).expect("just built");
    board.on_tag(&packet);
    board.on_departure(at(ms), &packet, to, Recovery::Rack)
}

/// Receives a SACK.
fn hears(board: &mut Board, ms: u64, cumulative: u32, gaps: &[(u16, u16)]) {
    hears_in(board, AssociationState::Established, ms, (cumulative, gaps));
}

/// A SACK arrives in this state.
fn hears_in(board: &mut Board, state: AssociationState, ms: u64, (cumulative, gaps): (u32, &[(u16, u16)])) {
    sack_arrives(board, state, ms, (cumulative, gaps, 100_000));
}

/// Returns the chunks of a packet.
fn chunks_of(bytes: &[u8]) -> Vec<RawChunk<'_>> {
    Packet::parse(bytes).expect("just built").chunks().flatten().collect()
}

/// A SACK arrives that reports this window after the cumulative acknowledgement and gap blocks.
fn sack_arrives(
    board: &mut Board,
    state: AssociationState,
    ms: u64,
    (cumulative, gaps, a_rwnd): (u32, &[(u16, u16)], u32),
) {
    let mut buffer = [0; 1500];
    let mut packet = PacketBuilder::new(&mut buffer, 2, 1, VerificationTag(4));
    let blocks = gaps.iter().map(|&(start, end)| GapBlock { start, end });
    assert!(sack::write(&mut packet, Tsn(cumulative), a_rwnd, blocks, &[]));
    let len = packet.finish();
    board.on_arrival(at(ms), &chunks_of(&buffer[..len]), state);
}

/// An NR-SACK arrives with these renegable and non-renegable blocks.
fn hears_kept(
    board: &mut Board,
    ms: u64,
    cumulative: u32,
    (renegable, kept): (&[(u16, u16)], &[(u16, u16)]),
) {
    let mut buffer = [0; 1500];
    let mut packet = PacketBuilder::new(&mut buffer, 2, 1, VerificationTag(4));
    let block = |&(start, end): &(u16, u16)| GapBlock { start, end };
    let (renegable, kept) = (renegable.iter().map(block), kept.iter().map(block));
    assert!(nr_sack::write_within(&mut packet, 1400, (Tsn(cumulative), 100_000), renegable, kept, &[]));
    let len = packet.finish();
    board.on_arrival(at(ms), &chunks_of(&buffer[..len]), AssociationState::Established);
}

/// A SHUTDOWN arrives in this state.
fn shuts_down_in(board: &mut Board, state: AssociationState, ms: u64, cumulative: u32) {
    let mut buffer = [0; 1500];
    let mut packet = PacketBuilder::new(&mut buffer, 2, 1, VerificationTag(4));
    assert!(packet.push(&Shutdown { cumulative_tsn: Tsn(cumulative) }));
    let len = packet.finish();
    board.on_arrival(at(ms), &chunks_of(&buffer[..len]), state);
}

/// Returns a board with TSNs 1 to 5 in flight and a round-trip time of 10 ms.
fn five() -> Board {
    in_flight(5)
}

/// Returns a board with TSNs from 1 on in flight, as many as this, and a round-trip time of 10 ms.
fn in_flight(count: u32) -> Board {
    let mut board = Board::default();
    for tsn in 1..=count {
        sends(&mut board, 0, tsn).expect("new data");
    }
    board.set_times(at(0), TO.into(), Some(Duration::from_millis(10)), Duration::from_secs(1));
    board.set_mtu_min(1500);
    board
}

#[test]
fn without_a_reason_nothing_goes_again() {
    let Violation(text) = sends(&mut five(), 5, 1).expect_err("nothing was acknowledged");
    assert!(text.contains("for no reason"), "{text}");
}

#[test]
fn what_three_packets_overtook_goes_again_once() {
    let mut board = five();
    hears(&mut board, 10, 0, &[(2, 4)]);
    assert_eq!(board.in_flight_least(at(10), TO.into(), Recovery::Rack, 0), 1016, "the one after them");
    sends(&mut board, 10, 1).expect("it was overtaken");
    sends(&mut board, 11, 1).expect_err("that was sent after all that has arrived");
    sends(&mut board, 11, 5).expect_err("it was not overtaken");
}

/// The window is a quarter of the round-trip time of 10 ms.
#[test]
fn overtaken_chunk_goes_after_the_reordering_window() {
    let mut board = five();
    hears(&mut board, 10, 0, &[(2, 2)]);
    assert_eq!(board.in_flight_least(at(12), TO.into(), Recovery::Rack, 0), 4 * 1016, "all others");
    sends(&mut board, 12, 1).expect_err("it may be late");
    sends(&mut board, 13, 1).expect("it is later than that");
}

/// Losses in a recovery need no reordering window, until everything sent before it began is acknowledged.
#[test]
fn in_a_recovery_nothing_waits_for_the_window() {
    let mut board = five();
    hears(&mut board, 10, 0, &[(2, 2)]);
    sends(&mut board, 13, 1).expect("late");
    hears(&mut board, 14, 0, &[(2, 2), (4, 4)]);
    sends(&mut board, 14, 3).expect("overtaken, in recovery");
    sends(&mut board, 20, 6).expect("new");
    sends(&mut board, 20, 7).expect("new");
    hears(&mut board, 24, 5, &[]);
    hears(&mut board, 30, 5, &[(2, 2)]);
    sends(&mut board, 30, 6).expect_err("it may be late: the recovery is over");
    sends(&mut board, 33, 6).expect("late");
}

#[test]
fn probe_goes_after_two_round_trips() {
    let mut board = five();
    sends(&mut board, 21, 5).expect("a probe");
    sends(&mut board, 22, 4).expect_err("and no other");
}

/// T3-rtx of another address expires when a probe is due: its data is retransmitted here too.
#[test]
fn probe_accompanies_another_addresss_loss() {
    let mut board = Board::default();
    let other: IpAddr = [10, 9, 9, 9].into();
    sends_to(&mut board, 0, 1, other).expect("new data");
    for tsn in 2..=4 {
        sends(&mut board, 0, tsn).expect("new data");
    }
    board.set_times(at(0), TO.into(), Some(Duration::from_millis(10)), Duration::from_secs(1));
    board.set_mtu_min(1500);
    board.excuse(Some(other));
    sends(&mut board, 21, 1).expect("that address timed out");
    sends(&mut board, 21, 4).expect("a probe");
    sends(&mut board, 21, 3).expect_err("and no other");
}

/// A path times out, and its first chunk is retransmitted on other ones. The answer shows that everything else sent on
/// the path before is lost.
#[test]
fn answer_on_another_path_shows_losses() {
    let (second, third) = ([10, 1, 0, 1].into(), [10, 2, 0, 1].into());
    let mut board = five();
    board.excuse_first(TO.into(), 1000);
    sends_to(&mut board, 1000, 1, second).expect("it timed out");
    board.excuse_first(second, 1000);
    sends_to(&mut board, 2000, 1, third).expect("it timed out again");
    sends(&mut board, 2050, 6).expect("new data");
    hears(&mut board, 2060, 1, &[]);
    assert_eq!(
        board.in_flight_least(at(2060), TO.into(), Recovery::Rack, 5000),
        1016,
        "the sixth is on its way"
    );
    for tsn in 2..=5 {
        sends_to(&mut board, 2060, tsn, third).expect("lost");
    }
    sends(&mut board, 2060, 6).expect_err("it was sent after the time-out");
}

#[test]
fn after_t3_rtx_each_goes_once() {
    let mut board = five();
    board.excuse(None);
    sends(&mut board, 5, 1).expect("it may be lost");
    sends(&mut board, 6, 1).expect_err("that is on its way");
}

#[test]
fn what_has_arrived_never_goes_again() {
    let mut board = five();
    hears(&mut board, 10, 1, &[(2, 2)]);
    sends(&mut board, 10, 1).expect_err("acknowledged cumulatively");
    sends(&mut board, 10, 3).expect_err("acknowledged by a gap block");
    sends(&mut board, 10, 7).expect_err("6 comes first");
}

/// INITs of both sides met, and the one that arrived later has another tag (RFC 9260 section 5.2.4 action B).
#[test]
fn tsns_go_on_under_another_tag() {
    let mut board = five();
    hears(&mut board, 10, 1, &[]);
    sends_under(&mut board, 20, 9, (4, TO.into())).expect("the peer has nothing of it, perhaps");
    sends_under(&mut board, 20, 9, (2, TO.into())).expect("nor of this");
    assert_eq!(board.next_tsn(), Some(Tsn(6)));
    sends_under(&mut board, 21, 9, (2, TO.into())).expect_err("that is on its way");
    sends_under(&mut board, 21, 9, (7, TO.into())).expect_err("6 comes first");
    sends_under(&mut board, 21, 9, (1, TO.into())).expect_err("that was acknowledged");
    // The peer has restarted.
    sends_under(&mut board, 30, 10, (1000, TO.into())).expect("new data");
    assert_eq!(board.next_tsn(), Some(Tsn(1001)));
    sends_under(&mut board, 30, 10, (5, TO.into())).expect_err("from before the restart");
}

/// Chunks that an earlier SACK acknowledged and a full one has no room for use up none of the allowed
/// retransmissions.
#[test]
fn time_out_passes_over_chunks_beyond_full_sack() {
    let mut board = Board::default();
    set_by_time(&mut board, true);
    for tsn in 1..=40 {
        sends(&mut board, 0, tsn).expect("new data");
    }
    let blocks = |count: u16| -> Vec<(u16, u16)> { (1..=count).map(|at| (2 * at, 2 * at)).collect() };
    // 2 to 38 are acknowledged, every other one; then only up to 34, because no more fit.
    hears(&mut board, 10, 0, &blocks(19));
    hears(&mut board, 11, 2, &blocks(16));
    // All that were never reported.
    board.excuse_first(TO.into(), 20 * 1016);
    for tsn in [33, 35, 37, 39] {
        let at = board.chunks.get(tsn - 3).expect("outstanding");
        assert!(at.excused, "{tsn}");
    }
    let excused = board.chunks.iter().filter(|chunk| chunk.excused && !chunk.acknowledged).count();
    assert_eq!(excused, 20);
    let mut board = five();
    set_by_time(&mut board, true);
    hears(&mut board, 10, 0, &[(2, 4)]);
    hears(&mut board, 11, 1, &[(2, 2)]);
    board.excuse_first(TO.into(), 2 * 1016);
    let excused: Vec<bool> = board.chunks.iter().map(|chunk| chunk.excused).collect();
    assert_eq!(excused, [true, false, true, false], "one with few blocks takes back what it leaves out");
}

/// After T3-rtx on the only path one packet is retransmitted; the others only when its answer shows that they are
/// lost.
#[test]
fn a_time_out_excuses_one_packet() {
    let mut board = five();
    board.excuse_first(TO.into(), 1500);
    sends(&mut board, 1000, 1).expect("the lowest");
    let Violation(text) = sends(&mut board, 1000, 2).expect_err("nobody has answered");
    assert!(text.contains("for no reason"), "{text}");
    let mut board = five();
    board.excuse_first(TO.into(), 1500);
    sends(&mut board, 1000, 1).expect("the lowest");
    hears(&mut board, 1010, 1, &[]);
    sends(&mut board, 1010, 2).expect("what was sent after it has arrived");
}

/// Late data of another address makes no gap here.
#[test]
fn gaps_of_another_address_do_not_count() {
    let mut behind = BehindGaps::default();
    let (one, other) = (TO.into(), [10, 0, 0, 2].into());
    let sack = |behind: &mut BehindGaps, of_others_missing: bool| {
        behind.begin();
        behind.look(if of_others_missing { other } else { one }, (Tsn(1), 1000), false, false);
        for tsn in 2..6 {
            behind.look(one, (Tsn(tsn), 1000), true, true);
        }
        behind.end();
    };
    sack(&mut behind, true);
    assert!(!behind.are_many(one, 1500) && !behind.are_many(other, 1500));
    sack(&mut behind, false);
    assert!(behind.are_many(one, 1500) && !behind.are_many(other, 1500));
}

/// SACKs that named chunks behind one gap say nothing of the next.
#[test]
fn each_gap_counts_its_own_sacks() {
    let mut behind = BehindGaps::default();
    let of = TO.into();
    let sack = |behind: &mut BehindGaps, gap: u32| {
        behind.begin();
        behind.look(of, (Tsn(gap), 100), false, false);
        behind.look(of, (Tsn(gap + 1), 100), true, true);
        behind.end();
        behind.are_many(of, 1500)
    };
    assert_eq!([1, 1, 7, 7, 7].map(|gap| sack(&mut behind, gap)), [false, false, false, false, true]);
}

/// What a complete SACK withdraws may be found late and begin a recovery, although the next answer acknowledges it.
#[test]
fn withdrawn_chunks_begin_a_recovery() {
    for (cumulative, last_named) in [(1, 2), (0, 2), (0, 5)] {
        let mut board = five();
        hears(&mut board, 10, 0, &[(2, 4)]);
        sends(&mut board, 13, 1).expect("it was overtaken");
        hears(&mut board, 14, 0, &[(2, 5)]);
        hears(&mut board, 20, cumulative, &[(2, last_named)]);
        sends(&mut board, 21, 6).expect("new data");
        sends(&mut board, 21, 7).expect("new data");
        // This ends the recovery that began with the first chunk.
        hears(&mut board, 24, 5, &[]);
        hears(&mut board, 32, 5, &[(2, 2)]);
        // The round trip took 11 ms, and the reordering window would be 2.5 ms.
        let again = sends(&mut board, 32, 6);
        assert_eq!(again.is_ok(), cumulative == 1, "{again:?}");
    }
}

/// RFC 9260 section 6: a SACK is processed in COOKIE-ECHOED, not in COOKIE-WAIT. Section 9.2: a SHUTDOWN is
/// processed in neither.
#[test]
fn answers_during_set_up() {
    for (state, processed) in [(AssociationState::CookieWait, false), (AssociationState::CookieEchoed, true)]
    {
        let mut board = five();
        shuts_down_in(&mut board, state, 10, 5);
        assert!(!board.is_idle(), "{state}");
        hears_in(&mut board, state, 10, (4, &[]));
        // It clocks new data.
        let delivered = if processed { (4 * BYTES, 1) } else { (0, 0) };
        assert_eq!(
            (board.take_delivered(TO.into()), board.a_rwnd().is_some()),
            (delivered, processed),
            "{state}"
        );
        shuts_down_in(&mut board, AssociationState::Established, 20, 5);
        assert!(board.is_idle());
    }
}

/// A peer sends no DATA before it has accepted the cookie.
#[test]
fn data_completes_the_set_up() {
    for (state, completes) in [(AssociationState::CookieWait, false), (AssociationState::CookieEchoed, true)]
    {
        let mut board = five();
        let mut buffer = [0; 1500];
        let mut packet = PacketBuilder::new(&mut buffer, 2, 1, VerificationTag(4));
        assert!(packet.push(&Data::whole(Tsn(1), StreamId(0), Ssn(0), b"x")));
        assert!(packet.push(&Shutdown { cumulative_tsn: Tsn(5) }));
        let len = packet.finish();
        board.on_arrival(at(10), &chunks_of(&buffer[..len]), state);
        assert_eq!(board.is_idle(), completes, "{state}");
    }
}

/// RFC 9260 section 3.3.4: a block is the set of its TSNs. Offset 0 is the Cumulative TSN Ack.
#[test]
fn a_block_may_begin_at_the_cumulative_ack() {
    let mut board = five();
    hears(&mut board, 10, 1, &[(0, 3)]);
    assert_eq!(board.take_delivered(TO.into()), (4 * BYTES, 1));
    hears(&mut board, 11, 1, &[(0, 0), (4, 2), (2, 4)]);
    assert_eq!(board.take_delivered(TO.into()), (BYTES, 1));
}

/// The peer's window opens and closes, and nothing is acknowledged: a chunk without room is retransmitted at most
/// twice as often as in RFC 9260.
#[test]
fn a_chunk_sent_again_in_silence_is_counted() {
    let mut board = five();
    board.set_rto_max(Duration::from_secs(60));
    let mut went = 0;
    for ms in (20..1000).step_by(20) {
        board.excuse_first(TO.into(), 1500);
        match sends(&mut board, ms, 1) {
            Ok(()) => went += 1,
            Err(Violation(text)) => {
                assert!(text.contains("went again"), "{text}");
                break;
            }
        }
    }
    assert_eq!(went, 4, "once as lost, once by T3-rtx, two probes");
    // New data was acknowledged.
    board.end_silence(at(1000), TO.into());
    board.excuse_first(TO.into(), 1500);
    sends(&mut board, 1002, 1).expect("it counts anew");
}

/// A HEARTBEAT ACK ends the back-off of the RTO (RFC 9260 section 6.3.3), so that T3-rtx expires more often.
#[test]
fn measurement_in_a_silence_ends_the_back_off() {
    let mut board = five();
    board.set_rto_max(Duration::from_secs(60));
    let mut went = 0;
    for s in 1..100 {
        let rto = if s % 4 == 0 { 1 } else { 2 };
        board.set_times(at(s * 1000), TO.into(), Some(Duration::from_millis(10)), Duration::from_secs(rto));
        if s % 2 == 0 {
            board.excuse_first(TO.into(), 1500);
            sends(&mut board, s * 1000, 1).expect("a time-out for each measurement");
            went += 1;
        }
    }
    assert_eq!(went, 49);
    let all = (0..200).find(|_| {
        board.excuse_first(TO.into(), 1500);
        sends(&mut board, 99_001, 1).is_err()
    });
    assert!(all.is_some(), "without a limit");
}

/// What is lost on the way to one address is retransmitted to another: all addresses together have a limit, and the end
/// of one's silence begins only its own count anew.
#[test]
fn retransmissions_to_all_addresses_are_counted() {
    let (one, other) = (IpAddr::from(TO), IpAddr::from([10, 0, 0, 2]));
    let mut silences = Silences::default();
    silences.set(Duration::from_secs(60));
    for of in [one, other] {
        silences.set_rto(at(0), of, Duration::from_secs(1));
    }
    let mut again = Again::default();
    let mut went = |silences: &Silences, ms: u64| {
        let to = [one, other].into_iter().cycle();
        let all = to.take_while(|of| silences.on_again(at(ms), (*of, Tsn(1)), at(0), &mut again).is_ok());
        all.take(100).count()
    };
    // To each one once as lost, once by T3-rtx, and two probes.
    assert_eq!(went(&silences, 500), 8);
    // A second time-out of both, each with a probe. The ninth retransmission counted although it was refused.
    assert_eq!(went(&silences, 1500), 3);
    silences.end(at(1600), one);
    silences.set_rto(at(1600), one, Duration::from_secs(1));
    assert_eq!(went(&silences, 1700), 4);
}

/// RFC 9260 section 6.2.1 D iii: a SACK that withdraws a gap acknowledgement counts as one miss indication, although it
/// reports nothing beyond.
#[test]
fn withdrawn_gap_acknowledgement_is_a_miss_indication() {
    for withdrawn in [false, true] {
        let mut board = five();
        hears(&mut board, 10, 0, if withdrawn { &[(3, 3)] } else { &[] });
        hears(&mut board, 11, 1, &[]);
        for ms in [12, 13] {
            hears(&mut board, ms, 1, &[(3, 3)]);
        }
        let least = board.in_flight_least(at(13), TO.into(), Recovery::Rfc9260, 0);
        assert_eq!(least, if withdrawn { BYTES } else { 3 * BYTES }, "without those missed three times");
    }
}

/// RFC 9260 section 6.1 A: new data beyond the window is a probe. The next SACK shows whether there is room now.
#[test]
fn window_opens_for_a_probe() {
    let established = AssociationState::Established;
    for (in_flight, shutdown, opened) in [(2, false, true), (1, false, false), (2, true, false)] {
        let mut board = five();
        sack_arrives(&mut board, established, 10, (4, &[], 2000));
        // The SHUTDOWN acknowledges TSN 5 and reports no window.
        shuts_down_in(&mut board, established, 11, 5);
        for tsn in 6..6 + in_flight {
            sends(&mut board, 20, tsn).expect("new");
        }
        if shutdown {
            shuts_down_in(&mut board, established, 30, 6);
        }
        assert!(!board.take_opened());
        sack_arrives(&mut board, established, 31, (5 + u32::from(shutdown), &[], 2000));
        assert_eq!(board.take_opened(), opened, "{in_flight} {shutdown}");
        assert!(!board.take_opened());
    }
}

/// A SHUTDOWN reports no window. If all SACKs were lost, the sender knows only what is left of that of the set-up.
#[test]
fn window_of_the_set_up_after_a_shutdown() {
    let established = AssociationState::Established;
    for (acknowledges, opened) in [(true, true), (false, false)] {
        let mut board = five();
        if acknowledges {
            shuts_down_in(&mut board, established, 11, 5);
        }
        sends(&mut board, 20, 6).expect("new");
        sack_arrives(&mut board, established, 31, (5, &[], 2000));
        assert_eq!(board.take_opened(), opened);
    }
}

/// A SACK of the numbers before a reset of all numbers may be ignored: the window that it reports is known or not.
#[test]
fn window_during_a_renumbering() {
    let established = AssociationState::Established;
    for (resets, opened) in [(true, true), (false, false)] {
        let mut board = five();
        sack_arrives(&mut board, established, 10, (5, &[], 0));
        if resets {
            board.expect_renumbering(Tsn(1000));
        }
        sack_arrives(&mut board, established, 11, (5, &[], 2000));
        sends(&mut board, 20, if resets { 1000 } else { 6 }).expect("new");
        sack_arrives(&mut board, established, 30, (if resets { 999 } else { 5 }, &[], 4000));
        assert_eq!(board.take_opened(), opened);
    }
}

/// The sender may measure the round-trip time with a chunk that a full SACK had no room for, or not.
#[test]
fn window_of_late_answer() {
    for (beyond_full, lost_at) in [(false, 230), (true, 220)] {
        let mut late = Late::default();
        late.on_acknowledged(at(100), (at(0), Tsn(1)), false);
        late.settle();
        if beyond_full {
            late.may_measure(at(160), at(100));
        }
        late.on_acknowledged(at(210), (at(110), Tsn(3)), false);
        late.settle();
        let finds = |ms| late.finds(at(ms), at(105), Tsn(2), false);
        assert!(finds(lost_at) && !finds(lost_at - 1), "{lost_at}");
    }
}
