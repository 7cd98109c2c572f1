//! One direction of one path: moves packets from a device through the link model to the other device.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use strandline_netem::{HeldLink, Link, LinkStats};

use super::clock::Clock;
use crate::netem::lateness::Lateness;

/// Packets read from or written to a device before the others have their turn.
const BATCH: usize = 64;
/// Buffers kept for reuse.
const SPARE_MAX: usize = 4096;

/// A packet in flight.
#[derive(Debug, Clone)]
pub(super) struct Packet {
    buffer: Vec<u8>,
    len: usize,
    /// How much earlier the link could have sent it if it had been read from the device at once.
    sent_late_ns: u64,
}

impl AsMut<[u8]> for Packet {
    fn as_mut(&mut self) -> &mut [u8] {
        let len = self.len.min(self.buffer.len());
        self.buffer.get_mut(..len).unwrap_or_default()
    }
}

/// Counters of one direction of one path.
#[derive(Debug, Clone)]
pub struct ChannelCounters {
    /// The link model's counters.
    pub link: LinkStats,
    /// Packets marked with ECN congestion experienced.
    pub marked_ce: u64,
    /// Packets written to the other device, including duplicates.
    pub written: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Packets that the other device refused.
    pub write_errors: u64,
    /// Packets still in flight at the end.
    pub on_their_way: u64,
    /// Lateness of their delivery.
    pub lateness: Lateness,
}

#[derive(Debug)]
pub(super) struct Channel {
    pub(super) link: HeldLink<Packet>,
    packet_size_max: usize,
    /// A packet read from the device now was not in it at this time.
    not_there_ns: u64,
    spare: Vec<Vec<u8>>,
    /// Packets read or delivered.
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

    /// Reads packets from a device. Returns whether there may be more.
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

    /// Passes a packet to the link. It may have arrived any time since the device was last seen empty. While
    /// the link was busy with earlier packets, that makes no difference; so the time that reading a burst takes
    /// doesn't count as lateness.
    fn offer(&mut self, now_ns: u64, buffer: Vec<u8>, len: usize) {
        let earliest_ns = self.not_there_ns.max(self.link.link().free_at_ns());
        let sent_late_ns = now_ns.saturating_sub(earliest_ns);
        // The link counts drops.
        let _ = self.link.push(now_ns, Packet { buffer, len, sent_late_ns });
    }

    /// Writes packets to the device that were due when the function was called. Returns whether there may be
    /// more of them.
    pub(super) fn deliver(&mut self, device: impl AsFd, clock: &Clock) -> bool {
        // Packets that become due meanwhile are left: otherwise packets would wait in the devices.
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

    /// Records that the thread slept during an interval and that a packet was to wake it `woken_late_ns`
    /// earlier: until then the device had no packet.
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
