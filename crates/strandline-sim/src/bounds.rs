//! What one path may send, computed here from what goes over the wire and the controller's numbers, beside what the engine
//! makes of them: proportional rate reduction (RFC 9937) and pacing.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use strandline_proto::stats::PathStatus;
use strandline_proto::time::Time;
use strandline_wire::chunk::{Chunk, Sack};
use strandline_wire::{Data, Packet, Tsn};

use crate::violation::{Violation, demand};

/// What pacing saves up: so much time, or so many packets (decision 25).
const SAVED: Duration = Duration::from_millis(4);
const SAVED_PACKETS: i64 = 10;

/// Bytes of a DATA chunk, header and padding included: what congestion control counts (RFC 9260 section 7.2).
fn chunk_bytes(data: &Data<'_>) -> u32 {
    (strandline_wire::DATA_CHUNK_HEADER_LEN + data.payload.len().next_multiple_of(4)) as u32
}

/// A chunk that was sent and is not acknowledged cumulatively.
#[derive(Debug)]
struct Outstanding {
    bytes: u32,
    to: IpAddr,
    acknowledged: bool,
}

/// The chunks of an association as packets and SACKs show them.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    /// TSN of the first of `chunks`.
    first: Option<Tsn>,
    chunks: VecDeque<Outstanding>,
    /// Acknowledged, and sent, since that was last looked at, by address.
    delivered: BTreeMap<IpAddr, u32>,
    sent: BTreeMap<IpAddr, u32>,
}

impl Scoreboard {
    /// A chunk goes to an address.
    pub(crate) fn on_data(&mut self, data: &Data<'_>, to: IpAddr) {
        let bytes = chunk_bytes(data);
        *self.sent.entry(to).or_default() += bytes;
        let first = *self.first.get_or_insert(data.tsn);
        let at = data.tsn.distance_from(first) as usize;
        let chunk = Outstanding { bytes, to, acknowledged: false };
        if let Some(known) = self.chunks.get_mut(at) {
            known.to = to;
        } else if at == self.chunks.len() {
            self.chunks.push_back(chunk);
        } else {
            // Another association under the same name: the peer began anew.
            self.chunks = VecDeque::from([chunk]);
            self.first = Some(data.tsn);
        }
    }

    /// A packet of the peer arrives.
    pub(crate) fn on_packet(&mut self, packet: &Packet<'_>) {
        for chunk in packet.chunks().flatten() {
            match chunk.parse() {
                Ok(Chunk::Sack(sack)) => self.on_sack(&sack),
                Ok(Chunk::Shutdown(shutdown)) => {
                    self.advance(shutdown.cumulative_tsn);
                }
                _ => {}
            }
        }
    }

    fn on_sack(&mut self, sack: &Sack<'_>) {
        if !self.advance(sack.cumulative_tsn()) {
            return;
        }
        let mut named: Vec<bool> = Vec::new();
        for block in sack.gap_blocks().filter(|block| block.start >= 1 && block.start <= block.end) {
            let end = usize::from(block.end).min(self.chunks.len());
            if named.len() < end {
                named.resize(end, false);
            }
            named.iter_mut().take(end).skip(usize::from(block.start) - 1).for_each(|named| *named = true);
        }
        for (chunk, named) in self.chunks.iter_mut().zip(named.into_iter().chain(core::iter::repeat(false))) {
            if named && !chunk.acknowledged {
                *self.delivered.entry(chunk.to).or_default() += chunk.bytes;
            }
            chunk.acknowledged = named;
        }
    }

    /// False if the acknowledgement is old, or of what was never sent.
    fn advance(&mut self, cumulative: Tsn) -> bool {
        let Some(first) = self.first else { return false };
        let steps = cumulative.next().distance_from(first) as usize;
        if steps > self.chunks.len() {
            return false;
        }
        for chunk in self.chunks.drain(..steps) {
            if !chunk.acknowledged {
                *self.delivered.entry(chunk.to).or_default() += chunk.bytes;
            }
        }
        self.first = Some(cumulative.next());
        true
    }

    fn take_delivered(&mut self, of: IpAddr) -> u32 {
        self.delivered.remove(&of).unwrap_or(0)
    }

    fn take_sent(&mut self, to: IpAddr) -> u32 {
        self.sent.remove(&to).unwrap_or(0)
    }
}

/// One recovery.
#[derive(Debug)]
struct Reduction {
    /// RecoverFS: in flight before its first loss was known.
    flight_at_start: u32,
    delivered: u64,
    sent: u64,
    /// Packets that went whatever the arithmetic.
    exempt: u32,
}

/// A bucket of tokens.
#[derive(Debug)]
struct Bucket {
    rate: u64,
    bytes: i64,
    at: Time,
}

/// What one path may send.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    /// In flight when that was last looked at.
    flight: u32,
    reduction: Option<Reduction>,
    bucket: Option<Bucket>,
    /// Recoveries of the association so far.
    recoveries: u32,
}

/// What happened to the association since the last look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Events {
    pub(crate) now: Time,
    /// Recoveries entered so far.
    pub(crate) recoveries: u32,
    /// Tail-loss probes, time-outs and recoveries since.
    pub(crate) exempt: u32,
    /// The association has several paths: a recovery may be that of any.
    pub(crate) several: bool,
}

fn bytes_in(rate: u64, time: Duration) -> i64 {
    i64::try_from(u128::from(rate) * time.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX)
}

impl Bounds {
    /// Before anything is transmitted: what arrived since.
    pub(crate) fn before(&mut self, board: &mut Scoreboard, path: &PathStatus, events: Events) {
        let delivered = board.take_delivered(path.address.ip());
        let again = events.recoveries != self.recoveries && !events.several;
        if path.recovery_window.is_none() {
            self.reduction = None;
        } else if self.reduction.is_none() || again {
            let flight_at_start = self.flight.max(1);
            self.reduction = Some(Reduction { flight_at_start, delivered: 0, sent: 0, exempt: 0 });
        }
        self.recoveries = events.recoveries;
        if let Some(reduction) = &mut self.reduction {
            reduction.delivered += u64::from(delivered);
        }
        self.refill(path, events.now);
        self.flight = path.flight;
    }

    fn refill(&mut self, path: &PathStatus, now: Time) {
        let Some(rate) = path.pacing_rate else {
            self.bucket = None;
            return;
        };
        let full = |rate| bytes_in(rate, SAVED).max(i64::from(path.mtu) * SAVED_PACKETS);
        self.bucket = Some(match self.bucket.take() {
            None => Bucket { rate, bytes: full(rate), at: now },
            Some(before) => {
                let most = rate.max(before.rate);
                let bytes = before.bytes.saturating_add(bytes_in(most, now.since(before.at)) + 1);
                Bucket { rate, bytes: bytes.min(full(most)), at: now }
            }
        });
    }

    /// After it was transmitted. `mtu`: the largest packet that the path may have carried.
    pub(crate) fn after(
        &mut self,
        board: &mut Scoreboard,
        (was, path): (&PathStatus, &PathStatus),
        mtu: u32,
        events: Events,
    ) -> Result<(), Violation> {
        let sent = board.take_sent(path.address.ip());
        let exempt = events.exempt + u32::from(was.flight == 0);
        self.flight = path.flight;
        if sent == 0 {
            return Ok(());
        }
        self.pacing(sent, mtu, exempt, path)?;
        self.reduction(sent, mtu, exempt, (was, path), events)
    }

    /// What goes over time is no more than the rate allows and what could be saved up. A packet may begin with the last byte
    /// of that.
    fn pacing(&mut self, sent: u32, mtu: u32, exempt: u32, path: &PathStatus) -> Result<(), Violation> {
        let Some(bucket) = &mut self.bucket else { return Ok(()) };
        bucket.bytes -= i64::from(sent);
        let least = -i64::from(mtu) * i64::from(1 + exempt);
        let left = bucket.bytes;
        // What went whatever the rate is not to be made up for twice.
        bucket.bytes = left.max(-i64::from(mtu));
        demand(left >= least, || {
            format!("{sent} bytes sent at once, {left} below what pacing allows: {path:?}")
        })
    }

    /// RFC 9937: while more is in flight than the threshold, what was sent in a recovery is to what was delivered as the
    /// threshold is to what was in flight; below it the flight does not grow beyond the threshold.
    fn reduction(
        &mut self,
        sent: u32,
        mtu: u32,
        exempt: u32,
        (was, path): (&PathStatus, &PathStatus),
        events: Events,
    ) -> Result<(), Violation> {
        let Some(reduction) = &mut self.reduction else { return Ok(()) };
        reduction.sent += u64::from(sent);
        reduction.exempt += exempt;
        let threshold = was.cwnd.max(path.cwnd);
        let share =
            (reduction.delivered * u64::from(threshold)).div_ceil(u64::from(reduction.flight_at_start));
        let in_proportion = reduction.sent <= share + u64::from(mtu) * u64::from(1 + reduction.exempt);
        let below = path.flight < threshold + mtu;
        let shrinks = path.flight <= was.flight;
        // With several paths it is not known whose recovery begins once more.
        demand(in_proportion || below || shrinks || events.several, || {
            format!(
                "more sent in recovery than in proportion: {reduction:?} {share}\n before {was:?}\n after {path:?}"
            )
        })
    }
}
