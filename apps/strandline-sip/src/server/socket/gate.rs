//! A gate in the kernel for datagrams: when far more comes than can be done, a share of the requests that begin something is
//! dropped before it takes any time from this process, as a program that the kernel runs for each datagram (a classic BPF
//! filter on the socket).
//!
//! Which ones is decided by their bytes: a request that is sent again, byte for byte, is dropped again. So who gets through
//! does so at the first attempt, and what has begun, emergencies (by their URI) and whatever isn't a request that begins
//! something always do.

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
    let threshold = (share.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32;
    steps.extend([(JUMP_AT_LEAST, 0, 1, threshold), (RETURN, 0, 0, 0), (RETURN, 0, 0, ALL)]);
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

/// How much is let through.
#[derive(Debug)]
pub(in crate::server) struct Gate {
    share: f64,
}

/// More than so many times what can be handled is too much: up to there, to read it and refuse it costs little.
const CLOSE_AT: f64 = 3.0;
/// So many times what can be handled is let in then.
const CLOSE_TO: f64 = 2.0;
/// With less than so many times, more is let in. Between the two nothing changes: each change lets in some who ask for the
/// second or third time.
const OPEN_AT: f64 = 1.2;
/// How fast, while there is more than can be done.
const OPENING: f64 = 1.05;
/// How fast afterwards.
const OPENING_AFTERWARDS: f64 = 1.3;

impl Gate {
    pub(in crate::server) fn new() -> Self {
        Self { share: 1.0 }
    }

    /// Requests a second came through, and so many can be handled, if there are too many. Returns the share that is to be let
    /// through from now on, if that changes.
    pub(in crate::server) fn look(&mut self, came: f64, can: Option<f64>) -> Option<f64> {
        let factor = match can {
            Some(can) if came > can * CLOSE_AT => can * CLOSE_TO / came,
            Some(can) if came > can * OPEN_AT => 1.0,
            Some(_) => OPENING,
            None => OPENING_AFTERWARDS,
        };
        // A machine that can do nothing at all still hears of one in a thousand.
        let wanted = (self.share * factor).clamp(0.001, 1.0);
        let changes = wanted != self.share;
        self.share = wanted;
        changes.then_some(wanted)
    }
}

#[cfg(test)]
mod tests;
