//! How often a chunk may be retransmitted while the peer acknowledges nothing new: with twice as many packets as RFC
//! 9260 would send to a silent peer, computed from the packets and the RTO alone. With several addresses the sum over
//! all of them counts, because what is lost on the way to one is retransmitted to another (section 6.4.1).

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use strandline_proto::time::Time;
use strandline_wire::Tsn;

use crate::by_address::ByAddress;
use crate::violation::{Violation, demand};

/// The silence of one address.
#[derive(Debug, Clone, Copy, Default)]
struct Silence {
    /// Number of silences that have ended.
    epoch: u32,
    since: Time,
    /// The shortest RTO since then.
    rto: Option<Duration>,
    /// The latest RTO.
    last_rto: Option<Duration>,
    /// When a measurement last ended the back-off (RFC 9260 section 6.3.3). A HEARTBEAT ACK is one, too.
    backs_off_since: Time,
    /// Number of time-outs between the beginning of the silence and that.
    earlier: u32,
}

/// How often a chunk was retransmitted in the silence of one address, to which it had been sent before.
#[derive(Debug, Clone, Copy)]
struct Count {
    /// The number of the silence.
    epoch: u32,
    times: u32,
    began: Time,
    /// Time-outs of the silence before that.
    earlier: u32,
}

/// How often a chunk was retransmitted in the silences of all addresses.
#[derive(Debug, Clone, Default)]
pub(super) struct Again(BTreeMap<IpAddr, Count>);

impl Again {
    /// Returns the number of retransmissions.
    pub(super) fn times(&self) -> u32 {
        self.0.values().map(|count| count.times).sum()
    }
}

/// The silences of all addresses of an association.
#[derive(Debug, Default)]
pub(super) struct Silences {
    of: ByAddress<Silence>,
    rto_max: Option<Duration>,
}

/// Returns the number of packets that T3-rtx sends within `elapsed`, with an interval that doubles each time (RFC
/// 9260 section 6.3.3). The timer may have been running when the silence began: one more.
fn time_outs(elapsed: Duration, rto: Duration, rto_max: Duration) -> u32 {
    let (mut count, mut at, mut wait) = (1, Duration::ZERO, rto.max(Duration::from_millis(1)));
    while at + wait <= elapsed {
        (count, at) = (count + 1, at + wait);
        wait = (wait * 2).min(rto_max.max(rto));
    }
    count
}

impl Silences {
    /// Sets RTO.Max.
    pub(super) fn set(&mut self, rto_max: Duration) {
        self.rto_max = Some(rto_max);
    }

    /// Sets the RTO of an address.
    pub(super) fn set_rto(&mut self, now: Time, of: IpAddr, rto: Duration) {
        let silence = self.of.of(of);
        let shortest = silence.rto.map_or(rto, |shortest| shortest.min(rto));
        if silence.last_rto.is_some_and(|last| rto < last) {
            let rto_max = self.rto_max.unwrap_or(shortest);
            silence.earlier += time_outs(now.since(silence.backs_off_since), shortest, rto_max);
            silence.backs_off_since = now;
        }
        (silence.rto, silence.last_rto) = (Some(shortest), Some(rto));
    }

    /// Ends the silence: new data was acknowledged, or a retransmission had another reason.
    pub(super) fn end(&mut self, now: Time, of: IpAddr) {
        let silence = self.of.of(of);
        *silence = Silence {
            epoch: silence.epoch + 1,
            since: now,
            backs_off_since: now,
            last_rto: silence.last_rto,
            ..Silence::default()
        };
    }

    /// Forgets an address that was removed: what was sent there is sent again elsewhere.
    pub(super) fn forget(&mut self, of: IpAddr) {
        let silence = self.of.of(of);
        *silence = Silence { epoch: silence.epoch + 1, ..Silence::default() };
    }

    /// Returns how often a chunk may be retransmitted that was last sent to the address before.
    fn most(&self, now: Time, of: IpAddr, count: &Count) -> Option<u32> {
        let silence = self.of.get(of)?;
        let began = count.began.max(silence.backs_off_since);
        let later = time_outs(now.since(began), silence.rto?, self.rto_max?);
        let time_outs = silence.earlier - count.earlier + later;
        // Once because it was lost, once for each time-out, and two probes or one for each packet of these.
        Some(1 + time_outs + (time_outs + 1).max(2))
    }

    /// Checks the retransmission of a chunk that had been sent to the address at `sent_at`.
    pub(super) fn on_again(
        &self,
        now: Time,
        (of, tsn): (IpAddr, Tsn),
        sent_at: Time,
        again: &mut Again,
    ) -> Result<(), Violation> {
        // A silence that has ended says nothing more.
        again.0.retain(|of, count| self.of.get(*of).is_some_and(|silence| silence.epoch == count.epoch));
        let Silence { epoch, since, earlier, .. } = self.of.get(of).copied().unwrap_or_default();
        let begins = Count { epoch, times: 0, began: since.max(sent_at), earlier };
        again.0.entry(of).or_insert(begins).times += 1;
        let most = again.0.iter().map(|(of, count)| self.most(now, *of, count)).sum::<Option<u32>>();
        demand(most.is_none_or(|most| again.times() <= most), || {
            format!("{tsn:?} went again {} times, {most:?} allowed: {again:?}", again.times())
        })
    }
}
