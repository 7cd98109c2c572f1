//! How often a chunk may be retransmitted while the peer acknowledges nothing new: with twice as many packets as RFC
//! 9260 would send to a silent peer, computed from the packets and the RTO alone.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use strandline_proto::time::Time;
use strandline_wire::Tsn;

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

/// How often a chunk was retransmitted in a silence.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Again {
    /// The address and the number of its silence.
    silence: Option<(IpAddr, u32)>,
    pub(super) times: u32,
    began: Time,
    /// Time-outs of the silence before that.
    earlier: u32,
}

/// The silences of all addresses of an association.
#[derive(Debug, Default)]
pub(super) struct Silences {
    of: BTreeMap<IpAddr, Silence>,
    rto_max: Option<Duration>,
    /// With several paths, data lost on one is retransmitted on another, which is not tracked here.
    several: bool,
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
    /// Sets RTO.Max, and whether there are several paths.
    pub(super) fn set(&mut self, rto_max: Duration, several: bool) {
        (self.rto_max, self.several) = (Some(rto_max), several);
    }

    /// Sets the RTO of an address.
    pub(super) fn set_rto(&mut self, now: Time, of: IpAddr, rto: Duration) {
        let silence = self.of.entry(of).or_default();
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
        let silence = self.of.entry(of).or_default();
        *silence = Silence {
            epoch: silence.epoch + 1,
            since: now,
            backs_off_since: now,
            last_rto: silence.last_rto,
            ..Silence::default()
        };
    }

    /// Checks the retransmission of a chunk that had been sent to the address at `sent_at`.
    pub(super) fn on_again(
        &self,
        now: Time,
        (of, tsn): (IpAddr, Tsn),
        sent_at: Time,
        before: Again,
    ) -> Result<Again, Violation> {
        let silence = self.of.get(&of).copied().unwrap_or_default();
        let mut again = before;
        if before.silence != Some((of, silence.epoch)) {
            let began = silence.since.max(sent_at);
            again = Again { silence: Some((of, silence.epoch)), times: 0, began, earlier: silence.earlier };
        }
        again.times += 1;
        let (Some(rto), Some(rto_max)) = (silence.rto, self.rto_max) else { return Ok(again) };
        let began = again.began.max(silence.backs_off_since);
        let time_outs = silence.earlier - again.earlier + time_outs(now.since(began), rto, rto_max);
        // Once because it was lost, once for each time-out, and two probes or one for each packet of these.
        let most = 1 + time_outs + (time_outs + 1).max(2);
        demand(again.times <= most || self.several, || {
            format!("{tsn:?} went again {} times since {:?}, {most} allowed", again.times, again.began)
        })?;
        Ok(again)
    }
}
