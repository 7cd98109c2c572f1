//! A peer whose TSNs continue after a reset of all numbers (section 5.2.4 step G2): its data overtakes its response.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use super::*;

fn first(raw: &Raw) -> RequestNumber {
    RequestNumber(raw.server_tsn.0)
}

/// Asks for a reset of all numbers. Returns its number.
fn ask_for_renumbering(raw: &mut Raw) -> RequestNumber {
    raw.pair.hosts[SERVER].endpoint.reset_association(raw.pair.now, raw.server).unwrap();
    assert_eq!(re_configs(&raw.heard()), [format!("[SSN/TSN Reset Request {}]", first(raw))]);
    first(raw)
}

/// Answers that the peer continues with this TSN. Returns the latest SACK: the cumulative TSN and the gaps.
fn renumbered(raw: &mut Raw, number: RequestNumber, sender: Tsn) -> Option<(Tsn, Vec<(u16, u16)>)> {
    let answer = ReConfigParameter::Response(Response {
        next_tsns: Some(NextTsns { sender, receiver: Tsn(7) }),
        ..Response::new(number, ResultCode::PERFORMED)
    });
    let sent = raw.re_config(&[answer]);
    sacks(&sent).last().map(|told| (told.cumulative, told.gaps.clone()))
}

/// Step G2: the peer's TSNs continue after the reset, and its data overtakes its response. A stream that was not used
/// before goes on. One that was used waits for the response, even with the SSN that is the next one by the old numbers.
#[test]
fn data_overtakes_the_response_to_a_renumbering() {
    let mut raw = open();
    let tsn = raw.tsn;
    raw.say_data(&on_stream(tsn, 1, 0, b"old"));
    let number = ask_for_renumbering(&mut raw);
    // Still from before the reset.
    raw.say_data(&on_stream(tsn + 1, 1, 1, b"late"));
    raw.say_data(&on_stream(tsn + 2, 3, 0, b"late"));
    assert_eq!(raw.read(), [&b"old"[..], b"late", b"late"]);
    // From after it.
    let begin = Data { ending: false, ..on_stream(tsn + 3, 2, 0, b"a long ") };
    raw.say_data(&begin);
    raw.say_data(&Data { beginning: false, tsn: tsn + 4, payload: b"message", ending: true, ..begin });
    raw.say_data(&on_stream(tsn + 5, 2, 1, b"goes on"));
    assert_eq!(raw.read(), [&b"a long message"[..], b"goes on"]);
    raw.say_data(&on_stream(tsn + 6, 1, 0, b"new 0"));
    raw.say_data(&on_stream(tsn + 7, 1, 1, b"new 1"));
    raw.say_data(&on_stream(tsn + 8, 1, 2, b"new 2"));
    raw.say_data(&on_stream(tsn + 9, 3, 0, b"other"));
    raw.say_data(&Data { unordered: true, ..on_stream(tsn + 10, 1, 0, b"unordered") });
    assert_eq!(raw.read(), [b"unordered"]);
    assert_eq!(renumbered(&mut raw, number, tsn + 3), Some((tsn + 5, vec![(5, 5)])));
    for (ahead, stream, ssn, text) in
        [(6, 1, 0, "new 0"), (7, 1, 1, "new 1"), (8, 1, 2, "new 2"), (9, 3, 0, "other"), (11, 2, 2, "ends")]
    {
        raw.say_data(&on_stream(tsn + ahead, stream, ssn, text.as_bytes()));
    }
    assert_eq!(raw.read(), [&b"new 0"[..], b"new 1", b"new 2", b"other", b"ends"]);
    let sent = raw.say_data(&Data { immediate: true, ..on_stream(tsn + 12, 1, 3, b"end") });
    assert_eq!(sacks(&sent).last().map(|told| told.cumulative), Some(tsn + 12));
    assert_eq!(raw.state(), "ESTABLISHED");
}

/// The next message of a stream that was used before shows that the peer has not performed the reset: what
/// follows by at most as many TSNs as its SSN is from before it, too, and is accepted beyond a gap.
#[test]
fn data_beyond_a_gap_before_a_renumbering() {
    let mut raw = open();
    let tsn = raw.tsn;
    raw.say_data(&on_stream(tsn, 1, 0, b"1"));
    raw.say_data(&on_stream(tsn + 1, 3, 0, b"3"));
    ask_for_renumbering(&mut raw);
    let beyond = |ahead| Data { immediate: true, ..on_stream(tsn + ahead, 3, 3, b"3") };
    let gaps =
        |raw: &mut Raw, ahead| sacks(&raw.say_data(&beyond(ahead))).last().map(|told| told.gaps.clone());
    // Three TSNs may have been used for the stream since the reset.
    assert_eq!(gaps(&mut raw, 7), Some(vec![]));
    for (ahead, stream, ssn) in [(2, 1, 1), (3, 3, 1), (4, 1, 2), (5, 3, 2)] {
        raw.say_data(&on_stream(tsn + ahead, stream, ssn, b"next"));
    }
    assert_eq!(gaps(&mut raw, 7), Some(vec![(2, 2)]));
    assert_eq!(raw.state(), "ESTABLISHED");
}

/// A peer that gives its own data up when it performs the reset: a message without its end, and one that is missing.
/// What follows is not taken for a violation, and counts once.
#[test]
fn a_renumbering_that_leaves_data_out() {
    let mut raw = open();
    let tsn = raw.tsn;
    raw.say_data(&on_stream(tsn, 1, 0, b"old"));
    raw.say_data(&Data { ending: false, ..on_stream(tsn + 1, 4, 0, b"without an end") });
    let number = ask_for_renumbering(&mut raw);
    // The peer performs the reset; the message before is missing, and its new data begins with TSN 3.
    raw.say_data(&on_stream(tsn + 3, 2, 0, b"new"));
    raw.say_data(&Data { unordered: true, ..on_stream(tsn + 4, 2, 0, b"unordered") });
    raw.say_data(&on_stream(tsn + 2, 2, 0, b"does not fit"));
    assert_eq!((raw.read(), raw.state()), (vec![b"old".to_vec(), b"unordered".to_vec()], "ESTABLISHED"));
    assert_eq!(renumbered(&mut raw, number, tsn + 3), Some((tsn + 2, vec![(2, 2)])));
    let sent = raw.say_data(&Data { immediate: true, ..on_stream(tsn + 3, 2, 0, b"new") });
    assert_eq!(sacks(&sent).last().map(|told| (told.cumulative, told.gaps.len())), Some((tsn + 4, 0)));
    raw.say_data(&on_stream(tsn + 5, 4, 0, b"also new"));
    assert_eq!((raw.read(), raw.state()), (vec![b"new".to_vec(), b"also new".to_vec()], "ESTABLISHED"));
    assert_eq!(raw.server().status(raw.server).unwrap().receive_buffered, 0);
}

/// A chunk of the peer, and whether the latest SACK acknowledges it.
struct Chunk {
    data: Data<'static>,
    follows: bool,
    acknowledged: bool,
}

/// A peer that sends whole messages and fragments on a few streams, and numbers them.
struct Peer {
    random: ChaCha8Rng,
    next: BTreeMap<u16, u16>,
    tsn: Tsn,
    chunks: Vec<Chunk>,
}

impl Peer {
    fn below(&mut self, limit: u32) -> u32 {
        self.random.next_u32() % limit
    }

    /// Sends some messages, which have not arrived yet. `follows` is true after the reset.
    fn send(&mut self, count: u32, follows: bool) {
        for _ in 0..count {
            let (stream, fragments) = (self.below(5) as u16, 1 + self.below(8) / 6 * 2);
            let unordered = self.below(5) == 0;
            let ssn = self.next.entry(stream).or_default();
            let ssn = if unordered { 0 } else { core::mem::replace(ssn, *ssn + 1) };
            let payload = if follows { b"new" } else { b"old" };
            for fragment in 0..fragments {
                let (beginning, ending) = (fragment == 0, fragment + 1 == fragments);
                let data = on_stream(self.tsn, stream, ssn, payload);
                let data = Data { beginning, ending, unordered, immediate: true, ..data };
                self.chunks.push(Chunk { data, follows, acknowledged: false });
                self.tsn = self.tsn.next();
            }
        }
    }

    /// Lets one of the chunks arrive that are not acknowledged, and processes the SACK.
    fn step(&mut self, raw: &mut Raw, wanted: impl Fn(&Chunk) -> bool) {
        let open: Vec<_> =
            self.chunks.iter().filter(|chunk| wanted(chunk) && !chunk.acknowledged).take(8).collect();
        if open.is_empty() {
            return;
        }
        let (data, count) = (open.iter().map(|chunk| chunk.data).collect::<Vec<_>>(), open.len() as u32);
        let sent = raw.say_data(&data[self.below(count) as usize]);
        let Some(told) = sacks(&sent).pop() else { return };
        for chunk in &mut self.chunks {
            let ahead = chunk.data.tsn.distance_from(told.cumulative) as u16;
            let in_gap = |(start, end): &(u16, u16)| (*start..=*end).contains(&ahead);
            chunk.acknowledged =
                chunk.data.tsn.is_at_or_before(told.cumulative) || told.gaps.iter().any(in_gap);
        }
    }

    fn is_done(&self) -> bool {
        self.chunks.iter().all(|chunk| chunk.acknowledged)
    }
}

/// Random data before and after the reset arrives in random order, and the response at a random time. Everything from
/// after the reset is delivered once and in order, and everything from before it that the peer does not abandon.
#[test]
fn random_data_around_a_renumbering() {
    for seed in 0..600_u64 {
        let mut raw = open();
        let random = ChaCha8Rng::seed_from_u64(seed);
        let mut peer = Peer { random, next: BTreeMap::new(), tsn: raw.tsn, chunks: Vec::new() };
        let count = peer.below(6);
        peer.send(count, false);
        while !peer.is_done() {
            peer.step(&mut raw, |_| true);
        }
        let number = ask_for_renumbering(&mut raw);
        let count = peer.below(12);
        peer.send(count, false);
        let abandons = seed % 2 == 1;
        for _ in 0..peer.below(12) {
            peer.step(&mut raw, |_| true);
        }
        while !abandons && !peer.is_done() {
            peer.step(&mut raw, |_| true);
        }
        // The peer performs the reset.
        let begin = peer.tsn;
        peer.next.clear();
        let count = 1 + peer.below(12);
        peer.send(count, true);
        for _ in 0..peer.below(30) {
            peer.step(&mut raw, |chunk| abandons || chunk.follows);
        }
        renumbered(&mut raw, number, begin);
        let count = peer.below(6);
        peer.send(count, true);
        for _ in 0..2_000 {
            peer.step(&mut raw, |chunk| chunk.follows);
        }
        assert_eq!(raw.state(), "ESTABLISHED", "seed {seed}");
        assert!(
            peer.chunks.iter().filter(|chunk| chunk.follows).all(|chunk| chunk.acknowledged),
            "seed {seed}"
        );
        check(&mut raw, &peer, abandons, seed);
    }
}

/// Compares what can be read with what was sent: stream, SSN, unordered, in this order within a stream.
fn check(raw: &mut Raw, peer: &Peer, abandons: bool, seed: u64) {
    type Key = (bool, u16, bool);
    let (mut sent, mut read) = (BTreeMap::<Key, Vec<u16>>::new(), BTreeMap::<Key, Vec<u16>>::new());
    for chunk in peer.chunks.iter().filter(|chunk| chunk.data.beginning) {
        let data = &chunk.data;
        sent.entry((chunk.follows, data.stream.0, data.unordered)).or_default().push(data.ssn.0);
    }
    while let Some(message) = raw.pair.hosts[SERVER].endpoint.recv(raw.pair.now, raw.server) {
        let key = (message.data.starts_with(b"new"), message.stream.0, message.unordered);
        assert!(message.data.len() == 3 || message.data.len() == 9, "seed {seed}: a whole message");
        read.entry(key).or_default().push(message.ssn.0);
    }
    for (key, sent) in sent {
        let read = read.remove(&key).unwrap_or_default();
        if key.0 || !abandons {
            assert_eq!(read, sent, "seed {seed}, {key:?}");
        } else {
            assert!(sent.starts_with(&read), "seed {seed}, {key:?}: {read:?} of {sent:?}");
        }
    }
    assert!(read.is_empty(), "seed {seed}: {read:?}");
}

/// "In progress" with the peer's first TSN after the reset: messages before that are from before the reset,
/// and are accepted beyond a gap.
#[test]
fn data_before_the_next_tsn_that_was_told() {
    let mut raw = open();
    let tsn = raw.tsn;
    let number = ask_for_renumbering(&mut raw);
    let beyond = Data { immediate: true, ..on_stream(tsn + 4, 3, 0, b"3") };
    let gaps = |sent: &[Sent]| sacks(sent).last().map(|told| told.gaps.clone());
    assert_eq!(gaps(&raw.say_data(&beyond)), Some(vec![]));
    let next_tsns = Some(NextTsns { sender: tsn + 5, receiver: Tsn(7) });
    let answer = Response { next_tsns, ..Response::new(number, ResultCode::IN_PROGRESS) };
    raw.re_config(&[ReConfigParameter::Response(answer)]);
    assert_eq!(gaps(&raw.say_data(&beyond)), Some(vec![(5, 5)]));
    assert_eq!(gaps(&raw.say_data(&Data { tsn: tsn + 6, ..beyond })), Some(vec![(5, 5)]));
    assert_eq!(raw.state(), "ESTABLISHED");
}

/// A stream that begins while the response is awaited has the same numbers before and after the reset: its messages are
/// accepted beyond a gap of fewer TSNs than their SSNs. They stay if they follow the reset.
#[test]
fn a_stream_that_begins_has_gaps() {
    for old in [0, 3] {
        let mut raw = open();
        let tsn = raw.tsn;
        let number = ask_for_renumbering(&mut raw);
        let gaps = |sent: &[Sent]| sacks(sent).last().map(|told| told.gaps.clone());
        let say = |raw: &mut Raw, ssn: u16| {
            gaps(&raw.say_data(&Data { immediate: true, ..on_stream(tsn + u32::from(ssn), 1, ssn, b"1") }))
        };
        for ssn in 0..3 {
            say(&mut raw, ssn);
        }
        assert_eq!(raw.read().len(), 3);
        // Four TSNs beyond the latest may have been used since a reset.
        assert_eq!(say(&mut raw, 4), Some(vec![(2, 2)]));
        assert_eq!(
            gaps(&raw.say_data(&on_stream(tsn + 5, 2, 1, b"2"))),
            Some(vec![(2, 2)]),
            "of another stream"
        );
        // The reset took place before everything, or after the third message, where the peer gave the fourth up.
        if old > 0 {
            assert_eq!(renumbered(&mut raw, number, tsn + 5), Some((tsn + 4, vec![])));
            raw.say_data(&on_stream(tsn + 5, 1, 0, b"new"));
            assert_eq!(raw.read(), [b"new"]);
        } else {
            assert_eq!(renumbered(&mut raw, number, tsn), Some((tsn + 2, vec![(2, 2)])));
            say(&mut raw, 3);
            assert_eq!(raw.read().len(), 2);
        }
        let status = raw.server().status(raw.server).unwrap();
        assert_eq!((status.receive_buffered, raw.state()), (0, "ESTABLISHED"));
    }
}
