//! A packet filter in the kernel for datagrams. If far more arrives than the server can handle, a share of
//! the requests that begin a transaction is dropped before it costs this process any time. A classic BPF
//! program on the socket decides this for each datagram.
//!
//! The decision depends on a hash of the message, so a retransmission is treated like the original: a request
//! that passes does so at the first attempt. Emergency requests (recognised by their URI), requests within
//! dialogs and all other messages always pass. Datagrams that the kernel has coalesced are judged together, by
//! the first; [`super::trains`] says when they may be coalesced.

use std::time::Duration;

use socket2::SockFilter;

/// Offset of the message in the packet, after the UDP header.
const MESSAGE: u32 = 8;
/// Offset of the request URI of an INVITE.
const INVITE_URI: u32 = MESSAGE + 7;
/// The bytes that are hashed. They start about at the second header line and include the branch and the
/// Call-ID.
const HASHED: core::ops::Range<u32> = MESSAGE + 32..MESSAGE + 288;
/// Number of bytes hashed together, if the message is long enough.
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

/// The return value of the program that accepts the whole packet.
const ALL: u32 = u32::MAX;
/// 2^32 divided by the golden ratio: an odd factor that mixes the upper bits well.
const FACTOR: u32 = 0x9e37_79b1;

/// The first four letters of the methods that begin a transaction.
const BEGINS: [&[u8; 4]; 7] = [b"INVI", b"REGI", b"OPTI", b"SUBS", b"MESS", b"PUBL", b"REFE"];

/// A BPF instruction: opcode, jump offsets for true and false, and a constant.
pub(super) type Step = (u16, u8, u8, u32);

/// The program that passes this share, from 0 to 1, of the requests that begin a transaction.
pub(super) fn program(share: f64) -> Vec<Step> {
    let mut steps = vec![
        // Messages that are too short to classify pass.
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

/// Passes messages that have one of these words at the offset, in any case.
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
    // X holds the hash so far.
    let mut steps = vec![(LOAD_LEN, 0, 0, 0), (TO_X, 0, 0, 0)];
    let parts: Vec<u32> = HASHED.step_by(PART as usize).collect();
    /// Number of instructions for each part.
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

/// The program in the form of the kernel.
pub(super) fn filter(share: f64) -> Vec<SockFilter> {
    program(share).into_iter().map(|(code, yes, no, k)| SockFilter::new(code, yes, no, k)).collect()
}

/// The hash that the kernel compares with the share: a request passes if its hash is less than the
/// [`threshold`] of the share. `None` if the message always passes, emergencies aside.
pub(in crate::server) fn mark(message: &[u8]) -> Option<u32> {
    if !may_be_dropped(message) {
        return None;
    }
    let len = MESSAGE + message.len() as u32;
    let whole = message.len().saturating_sub((HASHED.start - MESSAGE) as usize) / PART as usize;
    let hashed = message.get((HASHED.start - MESSAGE) as usize..).unwrap_or(&[]);
    let parts = whole.min(HASHED.len() / PART as usize);
    let (words, _) = hashed.get(..parts * PART as usize).unwrap_or(&[]).as_chunks::<4>();
    let mixed = words.iter().fold(len, |hash, word| (u32::from_be_bytes(*word) ^ hash).wrapping_mul(FACTOR));
    Some((mixed >> 15 ^ mixed).wrapping_mul(FACTOR))
}

/// Returns true if the filter may drop the message. It is dropped with what follows in a coalesced batch.
pub(super) fn may_be_dropped(message: &[u8]) -> bool {
    let begins = BEGINS.iter().any(|method| message.starts_with(&method[..]));
    begins && MESSAGE + message.len() as u32 >= HASHED.start
}

/// The threshold for a share: hashes below it pass.
pub(in crate::server) fn threshold(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32
}

/// The rates of requests that begin a transaction, per second, in one interval.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::server) struct Came {
    /// The length of the interval.
    pub(in crate::server) elapsed: Duration,
    /// First transmissions, as far as known, without those on trial.
    pub(in crate::server) first: f64,
    pub(in crate::server) all: f64,
    /// Those of `all` that are REGISTERs.
    pub(in crate::server) registers: f64,
    /// True if datagrams may have been unread when the interval began, so that fewer have arrived than were
    /// received.
    pub(in crate::server) began_unread: bool,
    /// Datagrams dropped by the kernel.
    pub(in crate::server) stopped: f64,
    /// Requests handled, over all transports.
    pub(in crate::server) handled: f64,
    /// Requests rejected, over all transports.
    pub(in crate::server) refused: f64,
    /// The share of the time, from 0 to 1, in which the server was not idle. Time in which other processes
    /// had the processor is included, because the server could not use it.
    pub(in crate::server) busy: f64,
    /// The share of the time, from 0 to 1, in which the server had the processor.
    pub(in crate::server) worked: f64,
    /// The cost of receiving and silently dropping a request, as a share of the cost of receiving and handling
    /// one.
    pub(in crate::server) receiving_share: f64,
}

/// Decides which share of the requests passes.
#[derive(Debug)]
pub(in crate::server) struct Gate {
    /// The share that the kernel passes.
    share: f64,
    /// Requests that pass beyond this share are on trial.
    admitted: f64,
    trial_ends: Option<Duration>,
    /// Recent averages: the requests handled per second, including those that could have been handled instead
    /// of sending rejections, and the share of the time in use.
    work: f64,
    busy: f64,
    /// The busy time that these averages cover.
    looked: Duration,
    /// The share of the processor that the server gets when it has enough to do: below 1 with a quota, or
    /// beside other processes.
    speed: f64,
    /// The time that this average covers.
    saturated: Duration,
    /// The estimated capacity in requests per second: the rate at full use of the time. The maximum of recent
    /// values.
    can: f64,
    /// Number of intervals in a row with too many requests.
    much: u32,
    little: u32,
    /// The work that came per second in the intervals with spare time, added up.
    little_came: f64,
    overloaded: bool,
}

/// The busy time after which the capacity is known. A tenth of a second is too short on a shared processor,
/// and most of the first one goes into work that began before.
const AVERAGED: Duration = Duration::from_secs(1);
/// When an overload begins, earlier observations count as this much time, because the requests may have been
/// of another kind.
const BEFORE: Duration = Duration::from_millis(200);
/// Minimum weight of an interval; otherwise its weight is the share of the time in use. A server that waits
/// for something else, such as a database, uses little time.
const COUNTS_MIN: f64 = 0.02;
/// The lowest share of busy time used to extrapolate the capacity. A server that may use only part of a
/// processor notices that only when this part is used up. Rejecting retransmissions, which is all that
/// remains to be done then, takes less time than it is charged for.
const BUSY_MIN: f64 = 0.5;
/// Maximum length of an interval. After a longer one, the server was stalled.
const LOOK_MAX: Duration = Duration::from_millis(200);
/// How much more may arrive than can be handled: as much as receiving it takes this share of the capacity, but
/// at most this multiple of the capacity. First what closes the gate, with retransmissions.
const CLOSE_AT: Surplus = Surplus { cost: 0.05, max: 1.0 };
/// What is then let in. Slightly too much costs little, and makes sure that the time is used. Each surplus
/// request may be sent five times and more.
const WANTED: Surplus = Surplus { cost: 0.01, max: 0.15 };
/// As [`WANTED`], while the capacity is not well known.
const WANTED_FIRST: Surplus = Surplus { cost: 0.03, max: 0.5 };
/// Tolerance within which the share is not changed.
const NEARLY: Surplus = Surplus { cost: 0.013, max: 0.1 };
/// The least factor by which the gate closes at a time if datagrams of before may have been counted.
const CLOSING_MIN: f64 = 0.5;
/// Number of intervals in a row with too many requests before the gate closes. Bursts alone don't close it.
const LOOKS_UNTIL_CLOSED: u32 = 3;
/// Multiple of the wanted rate at which the gate closes at once.
const FAR_TOO_MUCH: f64 = 2.0;
/// Share of busy time below which more requests are let in, on trial.
const OPEN_AT: f64 = 0.92;
/// Number of intervals in a row with spare time before more requests are let in. Pauses between bursts alone
/// don't open the gate.
const LOOKS_UNTIL_OPEN: u32 = 5;
/// The share of REGISTERs from which no trial is needed, because they are served however often they were
/// dropped. The gate then opens sooner, and closes again if that was too much.
const MOSTLY: f64 = 0.9;
const OPEN_AT_REGISTERS: f64 = 0.96;
const LOOKS_UNTIL_OPEN_REGISTERS: u32 = 1;
/// The gate opens without trial once no request is rejected and the kernel drops no more than this multiple
/// of the capacity.
const OVER_AT: f64 = 0.5;
/// Factor by which it then opens in each interval of a tenth of a second.
const OPENING: f64 = 1.3;
/// Length of a trial. During it, clients that were kept out before are rejected when they retransmit; every
/// client whose request is at most 7.5 s old retransmits at least once in this time (T2 of RFC 3261, and the
/// fourth transmission of an INVITE). They are remembered and rejected from then on. Serving them would be
/// too late for their users and delay new requests.
const TRIAL: Duration = Duration::from_secs(4);
/// Share of the time in use from which the server has enough to do.
const SATURATED: f64 = 0.95;
/// Factor by which the estimated speed grows per second while the server has too little to do, because a
/// quota or other processes may have gone.
const SPEEDING_UP: f64 = 1.05;
/// Factor by which more requests are let in while others are on trial, if the load has fallen since.
const TRIAL_MORE: f64 = 1.25;
/// Factor by which the capacity estimate decays per second of busy time; it halves in seven seconds. A server
/// that other processes delay for a second has the same capacity afterwards.
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
            speed: 1.0,
            saturated: Duration::ZERO,
            can: 0.0,
            much: 0,
            little: 0,
            little_came: 0.0,
            overloaded: false,
        }
    }

    /// The share of requests that is not on trial.
    pub(in crate::server) fn admitted(&self) -> f64 {
        self.admitted
    }

    /// Returns the new share for the kernel, if it changes. Call it about every tenth of a second.
    pub(in crate::server) fn look(&mut self, now: Duration, came: Came, overloaded: bool) -> Option<f64> {
        let before = self.share;
        let busy = self.learn(&came, overloaded);
        if self.trial_ends.is_some_and(|end| now >= end) {
            (self.admitted, self.trial_ends) = (self.share, None);
        }
        // Dropped clients retransmit without having got a response. While there are many, the overload isn't
        // over, even if all requests that pass are served.
        if overloaded || came.stopped > self.can * OVER_AT {
            self.look_at_overload(now, came, busy);
        } else {
            self.share = (self.share * OPENING).min(1.0);
            (self.admitted, self.trial_ends) = (self.share, None);
        }
        // The minimum, so that a server that can handle nothing still receives one request in a thousand.
        self.share = self.share.max(SHARE_MIN);
        self.admitted = self.admitted.max(SHARE_MIN);
        (self.share != before).then_some(self.share)
    }

    /// Updates the estimates of the speed and the capacity. Returns the share of the time in use.
    fn learn(&mut self, came: &Came, overloaded: bool) -> f64 {
        if overloaded && !self.overloaded {
            (self.looked, self.can) = (self.looked.min(BEFORE), 0.0);
            self.saturated = self.saturated.min(BEFORE);
        }
        self.overloaded = overloaded;
        let busy = self.learn_speed(came);
        let refusing = came.refused * came.receiving_share;
        if self.is_known() && came.handled < refusing {
            // Only rejections of retransmissions were sent, which says little about the capacity.
            return busy;
        }
        let elapsed = came.elapsed.min(LOOK_MAX).as_secs_f64();
        let used = elapsed * busy.max(COUNTS_MIN);
        self.looked += Duration::from_secs_f64(used);
        let weight = used / self.looked.min(AVERAGED).as_secs_f64().max(1e-3);
        average(&mut self.work, came.handled + refusing, weight);
        average(&mut self.busy, busy, weight);
        let rate = self.work / self.busy.max(BUSY_MIN);
        let before = if self.is_known() { self.can * FORGETTING.powf(used) } else { 0.0 };
        self.can = rate.max(before);
        busy
    }

    /// Updates the estimate of the speed. Returns the share of the time in use: of that which a quota and
    /// other processes leave.
    fn learn_speed(&mut self, came: &Came) -> f64 {
        let elapsed = came.elapsed.min(LOOK_MAX);
        if came.busy >= SATURATED {
            self.saturated += elapsed;
            let weight = elapsed.as_secs_f64() / self.saturated.min(AVERAGED).as_secs_f64().max(1e-3);
            average(&mut self.speed, came.worked / came.busy, weight);
        } else {
            self.speed = (self.speed * SPEEDING_UP.powf(elapsed.as_secs_f64())).min(1.0);
        }
        came.busy.max(came.worked / self.speed.max(SPEED_MIN)).min(1.0)
    }

    /// Returns true if the capacity is known well enough.
    fn is_known(&self) -> bool {
        self.looked >= AVERAGED
    }

    fn look_at_overload(&mut self, now: Duration, came: Came, busy: f64) {
        if self.can <= 0.0 {
            return;
        }
        // In requests that are handled.
        let work = came.first + (came.all - came.first) * came.receiving_share;
        let receiving = came.receiving_share;
        let wanted = if self.is_known() { WANTED } else { WANTED_FIRST };
        let wanted = self.can * wanted.multiple(receiving);
        let much =
            came.all > self.can * CLOSE_AT.multiple(receiving) && work > wanted * NEARLY.multiple(receiving);
        self.much = if much { self.much + 1 } else { 0 };
        if self.much >= LOOKS_UNTIL_CLOSED || (much && work > wanted * FAR_TOO_MUCH) {
            self.close(wanted / work, came.began_unread);
        }
        let registers = came.registers > came.all * MOSTLY;
        let (open_at, looks) = if registers {
            (OPEN_AT_REGISTERS, LOOKS_UNTIL_OPEN_REGISTERS)
        } else {
            (OPEN_AT, LOOKS_UNTIL_OPEN)
        };
        (self.little, self.little_came) =
            if busy < open_at { (self.little + 1, self.little_came + work) } else { (0, 0.0) };
        if self.little >= looks && self.share < 1.0 {
            let came_before = (self.little_came / f64::from(self.little)).max(1.0);
            let needed = self.admitted * (wanted / came_before).max(1.0);
            let share = needed.min(self.share + self.affordable(&came, busy)).clamp(self.share, 1.0);
            (self.little, self.little_came) = (0, 0.0);
            if registers {
                (self.share, self.admitted, self.trial_ends) = (share, share, None);
            } else if self.trial_ends.is_none() || share > self.share * TRIAL_MORE {
                // Those on trial since before are on trial for longer.
                (self.share, self.trial_ends) = (share, Some(now + TRIAL));
            }
        }
    }

    /// Closes the gate by a factor. Requests on trial are the first to stay out.
    fn close(&mut self, factor: f64, began_unread: bool) {
        if self.trial_ends.is_none() || self.share <= self.admitted {
            self.admitted *= if began_unread { factor.max(CLOSING_MIN) } else { factor };
        }
        (self.share, self.trial_ends, self.much) = (self.admitted, None, 0);
    }

    /// By how much the share can be raised in the unused time. Retransmissions of the requests that the kernel
    /// drops now come with it. On trial, they are received and rejected.
    fn affordable(&self, came: &Came, busy: f64) -> f64 {
        let registers = came.registers / came.all.max(1.0);
        let cost = registers + (1.0 - registers) * came.receiving_share;
        (1.0 - self.share) * self.can * (1.0 - busy) / (came.stopped * cost).max(1e-3)
    }
}

/// A limit for requests that can't be handled; both values are shares of the capacity.
#[derive(Debug, Clone, Copy)]
struct Surplus {
    /// What receiving them may take.
    cost: f64,
    /// The maximum, however little that is.
    max: f64,
}

impl Surplus {
    /// The multiple of the capacity that may arrive.
    fn multiple(self, receiving_share: f64) -> f64 {
        1.0 + (self.cost * (1.0 - receiving_share) / receiving_share.max(1e-3)).min(self.max)
    }
}

fn average(of: &mut f64, now: f64, weight: f64) {
    *of += (now - *of) * weight.min(1.0);
}

const SPEED_MIN: f64 = 0.001;
const SHARE_MIN: f64 = 0.001;

#[cfg(test)]
mod tests;
