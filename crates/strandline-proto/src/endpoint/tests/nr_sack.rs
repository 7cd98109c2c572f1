//! Non-renegable selective acknowledgements (draft-tuexen-tsvwg-sctp-multipath section 4).

use strandline_wire::chunk::{Shutdown, nr_sack, sack};
use strandline_wire::number::Tsn;
use strandline_wire::parameter::{Parameter, Parameters};
use strandline_wire::{Chunk, Data, GapBlock, Init, TlvWriter};

use super::raw::*;
use super::*;
use crate::reliability::Reliability;

type Blocks<'a> = &'a [(u16, u16)];

fn with_nr_sack(config: &mut AssociationConfig) {
    config.heartbeat_interval = None;
    config.extensions.nr_sack = true;
}

/// A peer that lists NR-SACK, set up with a server that offers it.
fn agreed() -> Raw {
    let mut buffer = [0; 16];
    let mut writer = TlvWriter::new(&mut buffer);
    assert!(writer.push(&Parameter::SupportedExtensions(&[kind::NR_SACK, kind::FORWARD_TSN])));
    let parameters = Parameters::new(writer.finish());
    let raw = Raw::open(Pair::configured(with_nr_sack), Init { parameters, ..init(Tsn(1000)) });
    assert!(raw.server().status(raw.server).unwrap().extensions.nr_sack);
    raw
}

fn buffered(raw: &Raw) -> usize {
    raw.server().status(raw.server).unwrap().send_buffered
}

/// Sends an NR-SACK for everything before the server's TSN number `next`.
fn say_nr_sack(raw: &mut Raw, next: u32, renegable: Blocks<'_>, kept: Blocks<'_>) -> Vec<Sent> {
    let fixed = ((raw.server_tsn + next).previous(), 1 << 20);
    let block = |&(start, end): &(u16, u16)| GapBlock { start, end };
    let (renegable, kept) = (renegable.iter().map(block), kept.iter().map(block));
    raw.say(|packet| assert!(nr_sack::write_within(packet, usize::MAX, fixed, renegable, kept, &[])))
}

/// An NR-SACK: its cumulative TSN, renegable and non-renegable blocks.
type Told = (Tsn, Vec<(u16, u16)>, Vec<(u16, u16)>);

/// Returns the NR-SACKs in packets.
fn told(packets: &[Sent]) -> Vec<Told> {
    let mut all = Vec::new();
    for chunk in packets.iter().flat_map(chunks) {
        if let Chunk::NrSack(sack) = chunk {
            let pair = |block: GapBlock| (block.start, block.end);
            let kept: Vec<_> = sack.non_renegable().map(pair).collect();
            let renegable = sack.gap_blocks().len() - kept.len();
            all.push((sack.cumulative_tsn(), sack.gap_blocks().take(renegable).map(pair).collect(), kept));
        }
    }
    all
}

fn kinds_in(packets: &[Sent]) -> Vec<u8> {
    packets.iter().flat_map(Sent::kinds).collect()
}

/// Section 4.1: only if both sides list it. Then only NR-SACKs are sent, otherwise only SACKs.
#[test]
fn both_sides_must_list_nr_sack() {
    for [client, server] in [[true, true], [true, false], [false, true], [false, false]] {
        let host = |index: usize, offers: bool| {
            let mut association = AssociationConfig::default();
            association.extensions.nr_sack = offers;
            EndpointConfig { association: Arc::new(association), ..config(1, index) }
        };
        let (mut pair, a, b) = Pair::with(host(CLIENT, client), host(SERVER, server)).establish();
        let both = client && server;
        for (host, id) in [(CLIENT, a), (SERVER, b)] {
            assert_eq!(pair.hosts[host].endpoint.status(id).unwrap().extensions.nr_sack, both);
        }
        pair.send(CLIENT, a, 0, &[1; 20_000]);
        pair.run();
        pair.send(SERVER, b, 0, &[2; 20_000]);
        pair.run();
        let sent = kinds_in(&pair.log);
        let (used, other) = if both { (kind::NR_SACK, kind::SACK) } else { (kind::SACK, kind::NR_SACK) };
        assert!(sent.contains(&used) && !sent.contains(&other), "{client} {server} {sent:?}");
    }
}

/// Sections 4.2 and 4.4.1, case 2: what was delivered is non-renegable, from the second packet beyond a gap
/// on. The lists are disjoint, and one without blocks is empty.
#[test]
fn delivered_messages_are_non_renegable() {
    let mut raw = agreed();
    let first = raw.tsn;
    raw.say_data(&whole(first, 0, b"first"));
    let unordered = |tsn: Tsn| Data { unordered: true, ..whole(tsn, 0, b"unordered") };
    let mut answers = raw.say_data(&unordered(first + 2));
    assert_eq!(told(&answers), [(first, vec![(2, 2)], vec![])]);
    // Out of order in its stream, then in order on another one.
    answers = raw.say_data(&whole(first + 3, 2, b"later"));
    assert_eq!(told(&answers), [(first, vec![(2, 3)], vec![])]);
    answers = raw.say_data(&Data { stream: StreamId(1), ..whole(first + 4, 0, b"other") });
    assert_eq!(told(&answers), [(first, vec![(2, 3)], vec![(4, 4)])]);
    answers = raw.say_data(&unordered(first + 6));
    assert_eq!(told(&answers), [(first, vec![(2, 3)], vec![(4, 4), (6, 6)])]);
    assert!(!kinds_in(&answers).contains(&kind::SACK));
    answers = raw.say_data(&whole(first + 1, 1, b"missing"));
    assert_eq!(told(&answers), [(first + 4, vec![], vec![(2, 2)])]);
    assert_eq!(raw.read().len(), 6);
}

/// All fragments of a message are, once its turn has come.
#[test]
fn fragments_of_delivered_messages_are_non_renegable() {
    let mut raw = agreed();
    let first = raw.tsn;
    let fragment = |tsn: u32, stream: u16, ssn: u16, (beginning, ending): (bool, bool)| Data {
        stream: StreamId(stream),
        beginning,
        ending,
        ..whole(first + tsn, ssn, b"fragment")
    };
    let (begins, middle, ends, alone) = ((true, false), (false, false), (false, true), (true, true));
    raw.say_data(&fragment(1, 9, 0, alone));
    let mut answers = Vec::new();
    // The second message of stream 1, then the first one, which lies before it.
    for (tsn, ssn, place) in [(6, 1, begins), (8, 1, ends), (7, 1, middle), (4, 0, ends), (3, 0, begins)] {
        answers = raw.say_data(&fragment(tsn, 1, ssn, place));
    }
    assert_eq!(told(&answers), [(first.previous(), vec![(2, 2)], vec![(4, 5), (7, 9)])]);
    assert_eq!(raw.read().len(), 3);
}

/// Section 4.4.1: if not all blocks fit, the highest are left out, of whichever kind.
#[test]
fn highest_blocks_of_both_kinds_are_left_out() {
    let mut raw = agreed();
    let first = raw.tsn;
    raw.say_data(&whole(first + 1, 1, b"begins the record"));
    let mut answers = Vec::new();
    for at in 1..600_u32 {
        // Every second one waits for its turn.
        let ssn = 1 + at.div_ceil(2) as u16;
        let data = Data { unordered: at % 2 == 0, ..whole(first + 1 + 2 * at, ssn, b"x") };
        answers = raw.say_data(&data);
    }
    answers.extend(raw.wait(Duration::from_secs(1)));
    let (_, renegable, kept) = told(&answers).pop().unwrap();
    let mut all = [renegable, kept.clone()].concat();
    all.sort_unstable();
    assert!(
        all.len() > 100 && all.len() < 599 && kept.len() + 1 >= all.len() / 2,
        "{} {}",
        all.len(),
        kept.len()
    );
    let expected: Vec<_> = (0..all.len() as u16).map(|at| (2 + 2 * at, 2 + 2 * at)).collect();
    assert_eq!(all, expected);
}

/// Section 4.4.2: what is non-renegable leaves the send buffer at once, what is renegable does not.
#[test]
fn non_renegable_messages_leave_the_send_buffer() {
    let mut raw = agreed();
    for _ in 0..4 {
        raw.server_sends(1000);
    }
    say_nr_sack(&mut raw, 0, &[(2, 2)], &[(3, 3)]);
    assert_eq!(buffered(&raw), 3000);
    // Listed as both: non-renegable.
    say_nr_sack(&mut raw, 0, &[(2, 3)], &[(2, 4)]);
    assert_eq!(buffered(&raw), 1000);
    let again = raw.wait(Duration::from_secs(2));
    assert!(tsns(&again).concat().iter().all(|tsn| *tsn == raw.server_tsn), "only what is missing");
    say_nr_sack(&mut raw, 4, &[], &[]);
    assert_eq!(buffered(&raw), 0);
}

/// Section 4.1: both should send NR-SACKs only. A peer that sends a SACK is understood, and revokes nothing by it.
#[test]
fn sacks_between_nr_sacks_are_processed() {
    let mut raw = agreed();
    for _ in 0..4 {
        raw.server_sends(1000);
    }
    say_nr_sack(&mut raw, 0, &[], &[(3, 4)]);
    raw.say_sack(1, 1 << 20, &[]);
    assert_eq!(buffered(&raw), 1000);
    raw.say_sack(4, 1 << 20, &[]);
    assert_eq!((buffered(&raw), raw.state()), (0, "ESTABLISHED"));
}

/// Section 4.1: not to be used without the agreement. The type's high bits ask a receiver that does not know
/// it to discard the chunk and the rest of its packet, whatever the chunk contains.
#[test]
fn nr_sack_without_agreement_is_unknown() {
    for offers in [false, true] {
        let mut raw =
            if offers { Raw::open(Pair::configured(with_nr_sack), init(Tsn(1000))) } else { Raw::new() };
        raw.server_sends(1000);
        let (cumulative, data) = (raw.server_tsn, whole(raw.tsn, 0, b"behind it"));
        let answer = raw.say(|packet| {
            let blocks = core::iter::empty();
            assert!(nr_sack::write_within(packet, 20, (cumulative, 1 << 20), blocks.clone(), blocks, &[]));
            assert!(packet.push(&data));
        });
        assert!(answer.is_empty());
        assert_eq!(buffered(&raw), 1000);
        // Shorter than its fields.
        assert!(raw.say_bytes(&[kind::NR_SACK, 0, 0, 8, 0, 0, 0, 0]).is_empty());
        assert_eq!(raw.state(), "ESTABLISHED");
        assert!(raw.read().is_empty());
    }
}

#[test]
fn nr_sack_of_wrong_length_ends_the_association() {
    let mut raw = agreed();
    let answer = raw.say_bytes(&[kind::NR_SACK, 0, 0, 8, 0, 0, 0, 0]);
    assert_eq!(kinds_in(&answer), [kind::ABORT]);
}

/// An optimistic receiver keeps TSNs that were never sent.
#[test]
fn keeping_what_was_never_sent_ends_the_association() {
    for (renegable, kept) in [(&[][..], &[(3, 4)][..]), (&[(5, 5)], &[]), (&[(2, 3)], &[(65_535, 65_535)])] {
        let mut raw = agreed();
        for _ in 0..3 {
            raw.server_sends(1000);
        }
        let answer = say_nr_sack(&mut raw, 0, renegable, kept);
        assert_eq!(kinds_in(&answer), [kind::ABORT]);
        let failed = |(_, event): &&(AssociationId, Event)| matches!(event, Event::SendFailed(_));
        assert_eq!(raw.pair.hosts[SERVER].events.iter().filter(failed).count(), 3);
    }
}

/// What the peer has taken responsibility for is not reported as failed when the association ends.
#[test]
fn kept_messages_are_not_reported_as_failed() {
    let mut raw = agreed();
    for _ in 0..3 {
        raw.server_sends(1000);
    }
    say_nr_sack(&mut raw, 0, &[(2, 2)], &[(3, 3)]);
    let now = raw.pair.now;
    raw.pair.hosts[SERVER].endpoint.abort(now, raw.server, Default::default()).unwrap();
    raw.heard();
    let failed = |(_, event): &&(AssociationId, Event)| matches!(event, Event::SendFailed(_));
    assert_eq!(raw.pair.hosts[SERVER].events.iter().filter(failed).count(), 2);
}

/// A message that the peer keeps is not abandoned when its lifetime ends, also if a new one has its place in memory.
#[test]
fn kept_messages_are_not_abandoned() {
    let mut raw = agreed();
    let reliability = Reliability::lifetime(Duration::from_secs(1));
    let info = SendInfo { reliability, ..SendInfo::on(StreamId(0)) };
    for info in [SendInfo::on(StreamId(0)), info] {
        let now = raw.pair.now;
        raw.pair.hosts[SERVER].endpoint.send(now, raw.server, info, vec![1; 1000].into()).unwrap();
        raw.heard();
    }
    say_nr_sack(&mut raw, 0, &[], &[(2, 2)]);
    assert_eq!(buffered(&raw), 1000);
    raw.server_sends(500);
    let sent = raw.wait(Duration::from_secs(5));
    assert!(!kinds_in(&sent).contains(&kind::FORWARD_TSN));
    assert_eq!(buffered(&raw), 1500);
    say_nr_sack(&mut raw, 3, &[], &[]);
    assert_eq!(buffered(&raw), 0);
}

/// The cumulative TSN of a SHUTDOWN acknowledges what lies between kept chunks. One that ends just before such a chunk
/// says that the peer lacks it, and its data has left.
#[test]
fn shutdown_after_an_nr_sack() {
    for contradicts in [false, true] {
        let mut raw = agreed();
        for _ in 0..4 {
            raw.server_sends(1000);
        }
        say_nr_sack(&mut raw, 0, &[], &[(2, 2), (4, 4)]);
        let cumulative_tsn = raw.server_tsn + if contradicts { 2 } else { 1 };
        let answer = raw.say(|packet| assert!(packet.push(&Shutdown { cumulative_tsn })));
        if contradicts {
            assert_eq!(kinds_in(&answer), [kind::ABORT]);
            continue;
        }
        assert_eq!((buffered(&raw), raw.state()), (1000, "SHUTDOWN-RECEIVED"));
        let answer = raw.say(|packet| {
            assert!(sack::write(packet, cumulative_tsn + 2, 1 << 20, core::iter::empty(), &[]));
        });
        assert_eq!(kinds_in(&answer), [kind::SHUTDOWN_ACK]);
    }
}

/// With a small send buffer and a long round trip, a lost packet holds up no message of another stream: the
/// sender has room again as soon as these have arrived.
#[test]
fn a_gap_does_not_block_the_send_buffer() {
    let accepted = |nr_sack: bool| {
        let mut association = AssociationConfig { send_buffer: Some(10_000), ..AssociationConfig::default() };
        association.extensions.nr_sack = nr_sack;
        let host =
            |index: usize| EndpointConfig { association: Arc::new(association.clone()), ..config(1, index) };
        let (mut pair, a, _) = Pair::with(host(CLIENT), host(SERVER)).establish();
        for stream in 0..10 {
            pair.send(CLIENT, a, stream, &[1; 1000]);
        }
        let mut first = true;
        pair.run_dropping(|sent| has(kind::DATA)(sent) && core::mem::take(&mut first));
        pair.hosts[CLIENT].endpoint.status(a).unwrap().send_buffered
    };
    let (without, with) = (accepted(false), accepted(true));
    // The first message beyond the gap is the one that the record begins with.
    assert_eq!((without, with), (10_000, 2000));
}
