//! One direction of one path: packets from a device through the link model to the other device.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use strandline_netem::{HeldLink, Link, LinkStats};

use super::clock::Clock;
use crate::netem::lateness::Lateness;

/// Packets taken from a device or given to it before the others have their turn.
const BATCH: usize = 64;
/// Buffers kept for packets to come.
const SPARE_MAX: usize = 4096;

/// A packet on its way.
#[derive(Debug, Clone)]
pub(super) struct Packet {
    buffer: Vec<u8>,
    len: usize,
    /// By how much earlier the link might have sent it, had it been taken from the device at once.
    sent_late_ns: u64,
}

impl AsMut<[u8]> for Packet {
    fn as_mut(&mut self) -> &mut [u8] {
        let len = self.len.min(self.buffer.len());
        self.buffer.get_mut(..len).unwrap_or_default()
    }
}

/// What one direction of one path did.
#[derive(Debug, Clone)]
pub struct ChannelCounters {
    /// The link model's counters.
    pub link: LinkStats,
    /// Packets that were marked: congestion experienced.
    pub marked_ce: u64,
    /// Packets given to the other device, duplicates included.
    pub written: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// Packets that the other device refused.
    pub write_errors: u64,
    /// Packets that were still on their way at the end.
    pub on_their_way: u64,
    /// How late they were delivered.
    pub lateness: Lateness,
}

#[derive(Debug)]
pub(super) struct Channel {
    pub(super) link: HeldLink<Packet>,
    packet_size_max: usize,
    /// A packet that comes out of the device now was not in it at this time.
    not_there_ns: u64,
    spare: Vec<Vec<u8>>,
    /// Packets taken or delivered.
    pub(super) handled: u64,
    written: u64,
    written_bytes: u64,
    write_errors: u64,
    lateness: Lateness,
}

impl Channel {
    pub(super) fn new(link: Link, mtu: u16, now_ns: u64) -> Self {
        Self {
            link: HeldLink::new(link),
            packet_size_max: usize::from(mtu),
            not_there_ns: now_ns,
            spare: Vec::new(),
            handled: 0,
            written: 0,
            written_bytes: 0,
            write_errors: 0,
            lateness: Lateness::new(),
        }
    }

    /// Takes packets from a device. Returns whether there may be more.
    pub(super) fn take(&mut self, device: impl AsFd, clock: &Clock) -> io::Result<bool> {
        let mut empty_at_ns = clock.now_ns();
        for _ in 0..BATCH {
            let mut buffer = self.spare.pop().unwrap_or_else(|| vec![0; self.packet_size_max]);
            match rustix::io::read(&device, &mut buffer) {
                Ok(len) => {
                    self.handled += 1;
                    let now_ns = clock.now_ns();
                    self.offer(now_ns, buffer, len);
                    empty_at_ns = now_ns;
                }
                Err(Errno::AGAIN) => {
                    self.not_there_ns = empty_at_ns;
                    self.spare.push(buffer);
                    return Ok(false);
                }
                Err(Errno::INTR) => self.spare.push(buffer),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Hands a packet to the link. It may have come any time since the device was seen empty. While the link was busy with
    /// the packets before it, that makes no difference; so bursts don't count as late for the time it takes to read them.
    fn offer(&mut self, now_ns: u64, buffer: Vec<u8>, len: usize) {
        let earliest_ns = self.not_there_ns.max(self.link.link().free_at_ns());
        let sent_late_ns = now_ns.saturating_sub(earliest_ns);
        // A drop is counted by the link.
        let _ = self.link.push(now_ns, Packet { buffer, len, sent_late_ns });
    }

    /// Gives the device what had arrived when it was called. Returns whether there may be more of that.
    pub(super) fn deliver(&mut self, device: impl AsFd, clock: &Clock) -> bool {
        // Not what arrives meanwhile: while that goes on, packets would wait in the devices.
        let called_ns = clock.now_ns();
        for _ in 0..BATCH {
            let Some((arrival_ns, mut packet)) = self.link.poll_with_arrival(called_ns) else { return false };
            let now_ns = clock.now_ns();
            self.handled += 1;
            let bytes = packet.as_mut();
            match rustix::io::write(&device, bytes) {
                Ok(len) => {
                    self.written += 1;
                    self.written_bytes += len as u64;
                    self.lateness.record(now_ns.saturating_sub(arrival_ns) + packet.sent_late_ns);
                }
                Err(_) => self.write_errors += 1,
            }
            if self.spare.len() < SPARE_MAX {
                self.spare.push(packet.buffer);
            }
        }
        true
    }

    /// The thread slept from one time to another, and was to be woken by a packet `woken_late_ns` earlier: until then
    /// there was no packet in the device.
    pub(super) fn slept(&mut self, from_ns: u64, to_ns: u64, woken_late_ns: u64) {
        let empty_ns = to_ns.saturating_sub(from_ns).saturating_sub(woken_late_ns);
        self.not_there_ns += empty_ns;
    }

    pub(super) fn counters(&mut self) -> ChannelCounters {
        ChannelCounters {
            link: *self.link.link().stats(),
            marked_ce: self.link.marked_ce(),
            written: self.written,
            written_bytes: self.written_bytes,
            write_errors: self.write_errors,
            on_their_way: self.link.on_their_way() as u64,
            lateness: self.lateness.clone(),
        }
    }
}
