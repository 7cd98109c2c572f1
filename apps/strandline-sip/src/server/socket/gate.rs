//! A gate in the kernel for datagrams: when far more comes than can be done, a share of the requests that begin something is
//! dropped before it takes any time from this process, as a program that the kernel runs for each datagram (a classic BPF
//! filter on the socket).
//!
//! Which ones is decided by their bytes: a request that is sent again, byte for byte, is dropped again. So who gets through
//! does so at the first attempt, and what has begun, emergencies (by their URI) and whatever isn't a request that begins
//! something always do.

use std::time::Duration;

use socket2::SockFilter;

/// Where the message is: after the header of UDP.
const MESSAGE: u32 = 8;
/// Where the URI of an INVITE is.
const INVITE_URI: u32 = MESSAGE + 7;
/// Bytes that the decision depends on, from the second header line or so on: branch and Call-ID are among them.
const HASHED: core::ops::Range<u32> = MESSAGE + 32..MESSAGE + 288;
/// Bytes that are hashed if the message is long enough for all of them.
const PART: u32 = 32;

const LOAD_WORD: u16 = 0x20;
const LOAD_LEN: u16 = 0x80;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
const TO_X: u16 = 0x07;
const MULTIPLY: u16 = 0x24;
const XOR_X: u16 = 0xac;
const OR: u16 = 0x44;
const SHIFT_RIGHT: u16 = 0x74;

/// What is taken: all of it.
const ALL: u32 = u32::MAX;
/// 2^32 divided by the golden ratio: odd, and its products are well mixed in their upper bits.
const FACTOR: u32 = 0x9e37_79b1;

/// The methods that begin something, by their first four letters.
const BEGINS: [&[u8; 4]; 7] = [b"INVI", b"REGI", b"OPTI", b"SUBS", b"MESS", b"PUBL", b"REFE"];

/// An instruction: code, jumps if true and if false, and a constant.
pub(super) type Step = (u16, u8, u8, u32);

/// The program that lets this share through of what begins something, 0 to 1.
pub(super) fn program(share: f64) -> Vec<Step> {
    let mut steps = vec![
        // What is too short to be told from others is taken.
        (LOAD_LEN, 0, 0, 0),
        (JUMP_AT_LEAST, 1, 0, HASHED.start),
        (RETURN, 0, 0, ALL),
        (LOAD_WORD, 0, 0, MESSAGE),
    ];
    for (number, method) in BEGINS.iter().enumerate() {
        let further = (BEGINS.len() - number) as u8;
        steps.push((JUMP_EQUAL, further, 0, u32::from_be_bytes(**method)));
    }
    steps.push((RETURN, 0, 0, ALL));
    steps.extend(emergency(INVITE_URI, &[b"urn:"]));
    steps.extend(emergency(INVITE_URI, &[b"sip:", b"sos@"]));
    steps.extend(emergency(INVITE_URI, &[b"sips", b":sos"]));
    steps.extend(hash());
    steps.extend([(JUMP_AT_LEAST, 0, 1, threshold(share)), (RETURN, 0, 0, 0), (RETURN, 0, 0, ALL)]);
    steps
}

/// Takes what has these letters there, small or large.
fn emergency(at: u32, words: &[&[u8; 4]]) -> Vec<Step> {
    const SMALL: u32 = 0x2020_2020;
    let mut steps = Vec::new();
    for (number, word) in words.iter().enumerate() {
        let otherwise = 3 * (words.len() - number) as u8 - 2;
        steps.extend([
            (LOAD_WORD, 0, 0, at + 4 * number as u32),
            (OR, 0, 0, SMALL),
            (JUMP_EQUAL, 0, otherwise, u32::from_be_bytes(**word) | SMALL),
        ]);
    }
    steps.push((RETURN, 0, 0, ALL));
    steps
}

/// Leaves a hash of the message in the accumulator.
fn hash() -> Vec<Step> {
    // The hash so far is in X.
    let mut steps = vec![(LOAD_LEN, 0, 0, 0), (TO_X, 0, 0, 0)];
    let parts: Vec<u32> = HASHED.step_by(PART as usize).collect();
    /// Steps of a part.
    const STEPS: u32 = 3 + 4 * (PART / 4);
    for (number, part) in parts.iter().enumerate() {
        let rest = (parts.len() - number) as u32 * STEPS - 3;
        steps.extend([(LOAD_LEN, 0, 0, 0), (JUMP_AT_LEAST, 1, 0, part + PART), (JUMP, 0, 0, rest)]);
        for word in (*part..part + PART).step_by(4) {
            steps.extend([
                (LOAD_WORD, 0, 0, word),
                (XOR_X, 0, 0, 0),
                (MULTIPLY, 0, 0, FACTOR),
                (TO_X, 0, 0, 0),
            ]);
        }
    }
    /// `A = X`.
    const FROM_X: u16 = 0x87;
    steps.extend([(FROM_X, 0, 0, 0), (SHIFT_RIGHT, 0, 0, 15), (XOR_X, 0, 0, 0), (MULTIPLY, 0, 0, FACTOR)]);
    steps
}

/// As the kernel takes it.
pub(super) fn filter(share: f64) -> Vec<SockFilter> {
    program(share).into_iter().map(|(code, yes, no, k)| SockFilter::new(code, yes, no, k)).collect()
}

/// What the kernel compares with the share: a message that begins something comes through if this is less than
/// [`threshold`] of the share. None if it always does, emergencies aside.
pub(in crate::server) fn mark(message: &[u8]) -> Option<u32> {
    let len = MESSAGE + message.len() as u32;
    let begins = BEGINS.iter().any(|method| message.starts_with(&method[..]));
    if !begins || len < HASHED.start {
        return None;
    }
    let whole = message.len().saturating_sub((HASHED.start - MESSAGE) as usize) / PART as usize;
    let hashed = message.get((HASHED.start - MESSAGE) as usize..).unwrap_or(&[]);
    let parts = whole.min(HASHED.len() / PART as usize);
    let (words, _) = hashed.get(..parts * PART as usize).unwrap_or(&[]).as_chunks::<4>();
    let mixed = words.iter().fold(len, |hash, word| (u32::from_be_bytes(*word) ^ hash).wrapping_mul(FACTOR));
    Some((mixed >> 15 ^ mixed).wrapping_mul(FACTOR))
}

/// Below this, marks are of the share.
pub(in crate::server) fn threshold(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32
}

/// Requests that begin something, each second.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::server) struct Came {
    /// How long was counted.
    pub(in crate::server) elapsed: Duration,
    /// Requests that came for the first time, as far as is known, and aren't on trial.
    pub(in crate::server) first: f64,
    pub(in crate::server) all: f64,
    /// Datagrams that the kernel has stopped.
    pub(in crate::server) stopped: f64,
    /// Requests that were handled, over all transports.
    pub(in crate::server) handled: f64,
    /// Requests that were refused, over all transports.
    pub(in crate::server) refused: f64,
    /// The share of the time in which the server didn't wait for something to do, 0 to 1. That others had its processor meanwhile is
    /// in it: this time wasn't there to be used.
    pub(in crate::server) busy: f64,
}

/// How much is let through.
#[derive(Debug)]
pub(in crate::server) struct Gate {
    /// By the kernel.
    share: f64,
    /// What is let through beyond this is on trial.
    admitted: f64,
    trial_ends: Option<Duration>,
    /// Averages of late: what was handled each second, with what could have been in place of refusing others, and the share of the time
    /// that was used.
    work: f64,
    busy: f64,
    /// How much of the time that was looked at for these was used.
    looked: Duration,
    /// What can be handled: what was done in the time that was used, if all of it had been. Of late, the most.
    can: f64,
    /// Looks in a row at which too much came, and time was left.
    much: u32,
    little: u32,
    /// What came for the first time at those last ones, each second, added up.
    little_first: f64,
    overloaded: bool,
}

/// To read a request and refuse it without a word takes as long as a part of handling one, as measured.
const READING: f64 = 1.0 / 20.0;
/// So much time that was used is looked at to find what can be handled: a tenth of a second is too short where the processor is shared,
/// and most of the first one goes into what began before.
const AVERAGED: Duration = Duration::from_secs(1);
/// When too much begins to come, what was seen before counts like so much time: it may have been requests of another kind.
const BEFORE: Duration = Duration::from_millis(200);
/// A look counts for the share of the time that was used, and for no less than this: who is held up by something else, such as a
/// database, uses little.
const COUNTS_MIN: f64 = 0.02;
/// Who used less of the time isn't believed to have more than this would leave: a server that may use a part of a processor learns of
/// that only when it is used up, and refusing those who ask again, all that there is to do then, takes less than it counts for.
const BUSY_MIN: f64 = 0.5;
/// A look after a longer time counts like one after so long: the server was held up.
const LOOK_MAX: Duration = Duration::from_millis(200);
/// More than so many times what can be handled, repetitions included, is too much: up to there, to read it and refuse it costs
/// little.
const CLOSE_AT: f64 = 2.0;
/// So many times what can be handled is let in then, and when more may come. Too much costs little, and too little can't be
/// mended before a trial is over.
const WANTED: f64 = 1.15;
/// [`WANTED`] while the capacity isn't known well.
const WANTED_FIRST: f64 = 1.5;
/// What is let in is as much as is wanted, within this: for less the gate isn't moved.
const NEARLY: f64 = 1.1;
/// If it is more so often in a row: what comes in bursts isn't more for that.
const LOOKS_UNTIL_CLOSED: u32 = 3;
/// With so many times of what is wanted the gate doesn't wait for that.
const FAR_TOO_MUCH: f64 = 2.0;
/// With less of the time in use, more is let in, on trial.
const OPEN_AT: f64 = 0.92;
/// If it is less so often in a row: who sends in bursts pauses between them.
const LOOKS_UNTIL_OPEN: u32 = 5;
/// Once nobody has to be refused any more, and no more than so many times of what can be handled is stopped, the gate opens without
/// a trial.
const OVER_AT: f64 = 0.5;
/// How fast it does so, each tenth of a second.
const OPENING: f64 = 1.3;
/// How long those who were kept out are refused when they ask again: as long as requests are sent again at least once by who
/// has asked within the last 7.5 s (T2 of RFC 3261, and the fourth time that an INVITE is sent). They are remembered, and refused
/// from then on. To serve them would be too late for whom it is for, and let those wait who ask for the first time.
const TRIAL: Duration = Duration::from_secs(4);
/// How fast it is forgotten what could be done, each second that is used: half of it in seven. Who is held up for a second by others on its machine
/// can do as much afterwards.
const FORGETTING: f64 = 0.9;

impl Gate {
    pub(in crate::server) fn new() -> Self {
        Self {
            share: 1.0,
            admitted: 1.0,
            trial_ends: None,
            work: 0.0,
            busy: 0.0,
            looked: Duration::ZERO,
            can: 0.0,
            much: 0,
            little: 0,
            little_first: 0.0,
            overloaded: false,
        }
    }

    /// The share that isn't on trial.
    pub(in crate::server) fn admitted(&self) -> f64 {
        self.admitted
    }

    /// Returns the share that the kernel is to let through from now on, if that changes. To be called every tenth of a second or so.
    pub(in crate::server) fn look(&mut self, now: Duration, came: Came, overloaded: bool) -> Option<f64> {
        let before = self.share;
        self.learn(&came, overloaded);
        if self.trial_ends.is_some_and(|end| now >= end) {
            (self.admitted, self.trial_ends) = (self.share, None);
        }
        // Those who are stopped hear nothing, and ask again. While there are many the load isn't over, even if the few that come
        // through are all served: the others have waited for seconds.
        if overloaded || came.stopped > self.can * OVER_AT {
            self.look_at_overload(now, came);
        } else {
            self.share = (self.share * OPENING).min(1.0);
            (self.admitted, self.trial_ends) = (self.share, None);
        }
        // A machine that can do nothing at all still hears of one in a thousand.
        self.share = self.share.max(SHARE_MIN);
        self.admitted = self.admitted.max(SHARE_MIN);
        (self.share != before).then_some(self.share)
    }

    /// What can be handled.
    fn learn(&mut self, came: &Came, overloaded: bool) {
        if overloaded && !self.overloaded {
            (self.looked, self.can) = (self.looked.min(BEFORE), 0.0);
        }
        self.overloaded = overloaded;
        let refusing = came.refused * READING;
        if self.is_known() && came.handled < refusing {
            // Those who are refused ask again, and that is all there is to do: it says little of what could be handled instead.
            return;
        }
        let elapsed = came.elapsed.min(LOOK_MAX).as_secs_f64();
        let used = elapsed * came.busy.max(COUNTS_MIN);
        self.looked += Duration::from_secs_f64(used);
        let weight = used / self.looked.min(AVERAGED).as_secs_f64().max(1e-3);
        let average = |of: &mut f64, now: f64| *of += (now - *of) * weight.min(1.0);
        average(&mut self.work, came.handled + refusing);
        average(&mut self.busy, came.busy);
        let rate = self.work / self.busy.max(BUSY_MIN);
        let before = if self.is_known() { self.can * FORGETTING.powf(used) } else { 0.0 };
        self.can = rate.max(before);
    }

    /// Was enough seen to tell what can be handled?
    fn is_known(&self) -> bool {
        self.looked >= AVERAGED
    }

    fn look_at_overload(&mut self, now: Duration, came: Came) {
        let Came { first, all, .. } = came;
        let wanted = self.can * if self.is_known() { WANTED } else { WANTED_FIRST };
        let much = all > self.can * CLOSE_AT && first > wanted * NEARLY;
        self.much = if much { self.much + 1 } else { 0 };
        if self.much >= LOOKS_UNTIL_CLOSED || (much && first > wanted * FAR_TOO_MUCH) {
            self.admitted *= wanted / first;
            (self.share, self.trial_ends, self.much) = (self.admitted, None, 0);
        }
        let (little, before) =
            if came.busy < OPEN_AT { (self.little + 1, self.little_first) } else { (0, -first) };
        (self.little, self.little_first) = (little, before + first);
        if little >= LOOKS_UNTIL_OPEN && self.trial_ends.is_none() && self.share < 1.0 {
            let came = (self.little_first / f64::from(little)).max(1.0);
            self.share = (self.admitted * (wanted / came).max(1.0)).min(1.0);
            self.trial_ends = Some(now + TRIAL);
        }
    }
}

const SHARE_MIN: f64 = 0.001;

#[cfg(test)]
mod tests;
