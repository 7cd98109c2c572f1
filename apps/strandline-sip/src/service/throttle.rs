//! Overload control towards downstream neighbours (RFC 7339, RFC 7415): their feedback limits the requests
//! that are sent to them. No I/O, no clock.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::HashMap;

use crate::codec::{HeaderName, Message, ParamValue, Via};
use crate::transaction::Time;

/// Maximum number of neighbours; feedback of further ones is ignored.
const NEIGHBOURS_MAX: usize = 4096;
/// Validity of feedback without `oc-validity`, in milliseconds (RFC 7339 section 4.3).
const VALIDITY_MS: u64 = 500;
/// Maximum validity of feedback, in milliseconds.
const VALIDITY_MS_MAX: u64 = 600_000;
/// Period over which the share of requests without priority is counted: a reduction of all requests is taken
/// from those.
const MIX_MS: u64 = 5000;
/// The assumed share of requests without priority until it has been counted (RFC 7339 section 7.2).
const MIX: f64 = 0.8;
/// Burst that a rate allows, in requests: of those without priority, and of the others (RFC 7415 section
/// 3.5.2).
const BURST: f64 = 5.0;
const BURST_URGENT: f64 = 10.0;
/// Number of consecutive time-outs after which only probes are sent (RFC 7339 section 5.9).
const SILENT_MAX: u32 = 3;
/// The first and the longest interval between probes, in milliseconds: it doubles each time.
const PROBE_MS: u64 = 1000;
const PROBE_MS_MAX: u64 = 32_000;

/// How requests are withheld.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Algorithm {
    /// This percentage of all requests is withheld (RFC 7339 section 7).
    Loss(f64),
    /// Maximum number of requests per second: a leaky bucket (RFC 7415 section 3.5).
    Rate { per_sec: f64, content_secs: f64, at: Time },
}

/// `oc-seq`: a number with a fraction.
type Sequence = (u64, u32);

#[derive(Debug, Clone, Copy)]
struct Wanted {
    algorithm: Algorithm,
    until: Time,
    seq: Option<Sequence>,
}

#[derive(Debug, Clone, Copy)]
struct Neighbour {
    wanted: Option<Wanted>,
    /// Requests since `counted_at`: those without priority, and all.
    spare: u32,
    all: u32,
    counted_at: Time,
    /// The share of requests without priority.
    mix: f64,
    /// Time-outs and failures since its last response.
    silent: u32,
    /// The earliest time of the next probe.
    probe_at: Time,
    seen: Time,
}

/// Counters of feedback and of withheld requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThrottleCounters {
    /// Feedback that was applied.
    pub heeded: u64,
    /// Requests that were withheld because of feedback.
    pub withheld: u64,
    /// Requests that were not sent because a neighbour no longer responds.
    pub silent: u64,
}

/// Downstream neighbours by address and port, the unit of overload control (RFC 7339 section 5.4).
#[derive(Debug)]
pub(super) struct Throttle {
    neighbours: HashMap<SocketAddr, Neighbour>,
    random: u64,
    pub(super) counters: ThrottleCounters,
}

/// Whether a request has priority (RFC 7339 section 5.10.1): those within dialogs, and emergencies.
pub(super) fn is_urgent(message: &Message<'_>, in_dialog: bool) -> bool {
    let uri = message.request_line().map_or(&b""[..], |line| line.uri);
    let begins = |with: &[u8]| uri.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with));
    in_dialog
        || begins(b"urn:service:sos")
        || begins(b"sip:sos@")
        || begins(b"sips:sos@")
        || message.lines(HeaderName::ResourcePriority).next().is_some()
        || message.lines(HeaderName::Priority).any(|line| line.value().eq_ignore_ascii_case(b"emergency"))
}

impl Throttle {
    pub(super) fn new(seed: u64) -> Self {
        Self { neighbours: HashMap::new(), random: seed, counters: ThrottleCounters::default() }
    }

    /// Number of neighbours that limit their requests now.
    pub(super) fn len(&self, now: Time) -> usize {
        let wants = |one: &&Neighbour| one.wanted.is_some_and(|wanted| now < wanted.until);
        self.neighbours.values().filter(wants).count()
    }

    /// A random number from 0 up to 1.
    fn chance(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((value ^ (value >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Takes the feedback in our Via of a neighbour's response.
    pub(super) fn on_response(&mut self, now: Time, peer: SocketAddr, via: &Via<'_>) {
        if let Some(neighbour) = self.neighbours.get_mut(&peer) {
            neighbour.silent = 0;
            neighbour.seen = now;
        }
        let feedback = via.oc.then(|| OverloadParams::read(via)).flatten();
        let Some(feedback) = feedback else { return };
        let Some(neighbour) = self.place(now, peer) else { return };
        let kept = neighbour.wanted.filter(|wanted| now < wanted.until);
        if let (Some(seq), Some(last)) = (feedback.seq, kept.and_then(|wanted| wanted.seq))
            && !is_later(seq, last)
        {
            return;
        }
        neighbour.wanted = feedback.wanted(now, kept.map(|wanted| wanted.algorithm));
        self.counters.heeded += 1;
        let wanted = self.neighbours.get(&peer).and_then(|neighbour| neighbour.wanted);
        if let Some(Wanted { algorithm: Algorithm::Rate { .. }, .. }) = wanted
            && !matches!(kept, Some(Wanted { algorithm: Algorithm::Rate { .. }, .. }))
        {
            // Randomised, so that the buckets of several senders don't stay in step (RFC 7415 section 3.5.3).
            let chance = self.chance();
            self.fill(peer, chance - 0.5);
        }
    }

    fn fill(&mut self, peer: SocketAddr, intervals: f64) {
        let wanted = self.neighbours.get_mut(&peer).and_then(|neighbour| neighbour.wanted.as_mut());
        if let Some(Wanted { algorithm: Algorithm::Rate { per_sec, content_secs, .. }, .. }) = wanted {
            *content_secs = (intervals / per_sec.max(1e-9)).max(0.0);
        }
    }

    /// Records that a neighbour could not be reached, or that a transaction to it timed out.
    pub(super) fn failed(&mut self, now: Time, peer: SocketAddr) {
        if let Some(neighbour) = self.place(now, peer) {
            neighbour.silent = neighbour.silent.saturating_add(1);
            let doublings = neighbour.silent.saturating_sub(SILENT_MAX).min(5);
            neighbour.probe_at = now + Duration::from_millis((PROBE_MS << doublings).min(PROBE_MS_MAX));
        }
    }

    fn place(&mut self, now: Time, peer: SocketAddr) -> Option<&mut Neighbour> {
        if self.neighbours.len() >= NEIGHBOURS_MAX && !self.neighbours.contains_key(&peer) {
            // This scan runs at most once for each new neighbour.
            let is_of_use = |neighbour: &Neighbour| {
                neighbour.wanted.is_some_and(|wanted| now < wanted.until)
                    || now - neighbour.seen < Duration::from_millis(2 * PROBE_MS_MAX)
            };
            self.neighbours.retain(|_, neighbour| is_of_use(neighbour));
            if self.neighbours.len() >= NEIGHBOURS_MAX {
                return None;
            }
        }
        let new = Neighbour {
            wanted: None,
            spare: 0,
            all: 0,
            counted_at: now,
            mix: MIX,
            silent: 0,
            probe_at: Time::ZERO,
            seen: now,
        };
        Some(self.neighbours.entry(peer).or_insert(new))
    }

    /// Whether a request may be sent to a neighbour now.
    pub(super) fn allows(&mut self, now: Time, peer: SocketAddr, urgent: bool) -> bool {
        if self.neighbours.is_empty() {
            return true;
        }
        let chance = self.chance();
        let Some(neighbour) = self.neighbours.get_mut(&peer) else { return true };
        if neighbour.silent >= SILENT_MAX {
            if now < neighbour.probe_at {
                self.counters.silent += 1;
                return false;
            }
            // Only one probe at a time.
            let doublings = neighbour.silent.saturating_sub(SILENT_MAX).min(5);
            neighbour.probe_at = now + Duration::from_millis((PROBE_MS << doublings).min(PROBE_MS_MAX));
        }
        neighbour.count(now, urgent);
        let mix = neighbour.mix;
        let Some(wanted) = neighbour.wanted.as_mut() else { return true };
        if now >= wanted.until {
            neighbour.wanted = None;
            return true;
        }
        let allowed = match &mut wanted.algorithm {
            Algorithm::Loss(percent) => chance * 100.0 >= loss(*percent, mix, urgent),
            Algorithm::Rate { per_sec, content_secs, at } => {
                leak(*per_sec, content_secs, at, now, urgent, chance - 0.5)
            }
        };
        self.counters.withheld += u64::from(!allowed);
        allowed
    }
}

impl Neighbour {
    fn count(&mut self, now: Time, urgent: bool) {
        if now - self.counted_at >= Duration::from_millis(MIX_MS) {
            if self.all >= 20 {
                self.mix = (f64::from(self.spare) / f64::from(self.all)).clamp(0.01, 0.99);
            }
            (self.spare, self.all, self.counted_at) = (0, 0, now);
        }
        self.all = self.all.saturating_add(1);
        self.spare = self.spare.saturating_add(u32::from(!urgent));
    }
}

/// The percentage of requests of this kind to leave out, so that it is `percent` of all (RFC 7339 section
/// 7.2).
fn loss(percent: f64, mix: f64, urgent: bool) -> f64 {
    let spare = mix * 100.0;
    match (urgent, percent <= spare) {
        (false, true) => percent / mix,
        (false, false) => 100.0,
        (true, true) => 0.0,
        (true, false) => (percent - spare) / (1.0 - mix),
    }
}

/// Lets a request into the bucket if there is room (RFC 7415 section 3.5.2). `jitter` is from -1/2 to 1/2.
fn leak(per_sec: f64, content_secs: &mut f64, at: &mut Time, now: Time, urgent: bool, jitter: f64) -> bool {
    if per_sec < 1e-9 {
        return false;
    }
    let interval = 1.0 / per_sec;
    let content = *content_secs - (now - *at).as_secs_f64();
    if content > interval * if urgent { BURST_URGENT } else { BURST } {
        return false;
    }
    let jitter = if content > 0.0 { 0.0 } else { jitter };
    *content_secs = content.max(0.0) + interval * (1.0 + jitter);
    *at = now;
    true
}

/// The feedback in a Via.
struct OverloadParams {
    value: Option<u32>,
    is_rate: bool,
    validity_ms: Option<u64>,
    seq: Option<Sequence>,
}

impl OverloadParams {
    /// `None` if it makes no sense, or is an unknown algorithm.
    fn read<'a>(via: &Via<'a>) -> Option<Self> {
        let (mut value, mut algorithm, mut validity, mut seq) = (None, None, None, None);
        for (name, said) in via.params.iter() {
            let place = match name.len() {
                2 if name.eq_ignore_ascii_case(b"oc") => &mut value,
                6 if name.eq_ignore_ascii_case(b"oc-seq") => &mut seq,
                7 if name.eq_ignore_ascii_case(b"oc-algo") => &mut algorithm,
                11 if name.eq_ignore_ascii_case(b"oc-validity") => &mut validity,
                _ => continue,
            };
            // Of a repeated parameter the first counts.
            place.get_or_insert(said);
        }
        let text = |said: Option<Option<ParamValue<'a>>>| -> Option<&'a str> {
            said.flatten().and_then(|value| core::str::from_utf8(value.as_bytes()).ok())
        };
        let validity_ms = text(validity).map(str::parse).transpose().ok()?;
        // `oc-validity` without a value counts as absent (section 4.3). `oc` without a value only announces
        // support, as most neighbours do.
        let value = text(value);
        if value.is_none() && validity_ms != Some(0) {
            return None;
        }
        let algorithm = text(algorithm).unwrap_or("loss").trim_matches(['"', ' ']);
        let is_rate = algorithm.eq_ignore_ascii_case("rate");
        if !is_rate && !algorithm.eq_ignore_ascii_case("loss") {
            return None;
        }
        let seq = match text(seq) {
            None => None,
            Some(text) => {
                let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
                Some((whole.parse().ok()?, fraction.parse().ok()?))
            }
        };
        Some(Self { value: value.map(str::parse).transpose().ok()?, is_rate, validity_ms, seq })
    }

    fn wanted(&self, now: Time, last: Option<Algorithm>) -> Option<Wanted> {
        let validity_ms = self.validity_ms.unwrap_or(VALIDITY_MS).min(VALIDITY_MS_MAX);
        let value = f64::from(self.value?);
        if validity_ms == 0 {
            return None;
        }
        let algorithm = match (self.is_rate, last) {
            (false, _) => Algorithm::Loss(value.min(100.0)),
            // The bucket keeps its level, counted in requests.
            (true, Some(Algorithm::Rate { per_sec, content_secs, at })) => {
                let content_secs = if value > 0.0 { content_secs * per_sec / value } else { content_secs };
                Algorithm::Rate { per_sec: value, content_secs, at }
            }
            (true, _) => Algorithm::Rate { per_sec: value, content_secs: 0.0, at: now },
        };
        Some(Wanted { algorithm, until: now + Duration::from_millis(validity_ms), seq: self.seq })
    }
}

/// Whether a sequence number is later. A much smaller one comes from a neighbour that has restarted (RFC 7339
/// section 4.4).
fn is_later(seq: Sequence, last: Sequence) -> bool {
    seq > last || seq.0 < last.0 / 2
}
