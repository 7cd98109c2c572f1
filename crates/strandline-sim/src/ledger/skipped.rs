//! Messages of which a receiver has skipped a part: a FORWARD TSN covers a chunk that had not arrived. What arrives of
//! them later is a duplicate, and they are never delivered.

use std::collections::{BTreeMap, BTreeSet};

use strandline_wire::{Packet, Ppid, Tsn};

use super::{End, Ledger};
use crate::board::data_in;

/// A FORWARD TSN looks back this far: to a half of what may be outstanding, so that TSNs before a reset of all numbers
/// are not taken for these.
const LOOKS_BACK: u32 = 1 << 15;

#[derive(Debug, Default)]
pub(super) struct Skipped {
    /// The chunks of messages with limits that were sent, by the receiver's tag and the TSN.
    sent: BTreeMap<(u32, u32), Ppid>,
    /// The chunks that came to a host, whether or not it took them, with tag and TSN.
    arrived: BTreeSet<(usize, u32, u32)>,
    /// Messages of which an end has skipped a part.
    dead: BTreeSet<(u32, End)>,
}

impl Skipped {
    /// Records that a chunk of a message with a limit is sent to a peer with this tag.
    pub(super) fn departs(&mut self, tag: u32, tsn: Tsn, message: Ppid) {
        self.sent.insert((tag, tsn.0), message);
    }

    /// True if an end has skipped a part of the message.
    pub(super) fn is_dead(&self, message: Ppid, at: End) -> bool {
        self.dead.contains(&(message.0, at))
    }
}

impl Ledger {
    /// Records a packet that comes to a host. `skips` is the end that processes a FORWARD TSN of the packet, and its
    /// new cumulative TSN.
    pub(crate) fn arrives(&mut self, host: usize, bytes: &[u8], skips: Option<(End, Tsn)>) {
        if !self.may_skip.contains(&host) {
            return;
        }
        let Ok(packet) = Packet::parse(bytes) else { return };
        let tag = packet.verification_tag().0;
        let Skipped { sent, arrived, dead } = &mut self.skipped;
        arrived
            .extend(packet.chunks().flatten().filter_map(|chunk| Some((host, tag, data_in(&chunk)?.tsn.0))));
        let Some((end, up_to)) = skips else { return };
        let of_tag = sent.range((tag, 0)..=(tag, u32::MAX));
        let skipped = of_tag.filter(|((_, tsn), _)| up_to.distance_from(Tsn(*tsn)) < LOOKS_BACK);
        let missing = skipped.filter(|((_, tsn), _)| !arrived.contains(&(host, tag, *tsn)));
        dead.extend(missing.map(|(_, message)| (message.0, end)));
    }
}
