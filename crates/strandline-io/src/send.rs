//! Hands bursts of packets to the kernel and interprets its errors.

use std::io;
use std::os::fd::BorrowedFd;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::errors::Errors;
use crate::fragment::Fragmenter;
use crate::sys::message::{self, Piece, SEND_MAX};
use crate::{Outgoing, SendStats};

/// Maximum number of segments in one GSO burst that all kernels accept (UDP_MAX_SEGMENTS was 64 before Linux
/// 6.9).
pub(crate) const GSO_SEGMENTS_MAX: usize = 64;
/// Maximum length of a GSO burst in bytes: the payload of the largest IPv4 datagram.
const GSO_BYTES_MAX: usize = 65_507;
/// Number of bursts refused as bursts but accepted packet by packet after which GSO is disabled.
const GSO_FAULTS_MAX: u32 = 3;
/// Number of times that a packet is offered again after an error. Each error may be the socket's pending
/// error, which is about an earlier packet and is cleared by being returned.
const RETRIES_MAX: u32 = 2;

/// The sending half of a carrier, the same for UDP and raw IP.
#[derive(Debug)]
pub(crate) struct Sender {
    is_v6: bool,
    /// Whether IPv4 destinations take their mapped IPv6 form: true for a UDP socket of IPv6, which may be
    /// dual-stack, never for a raw one.
    mapped: bool,
    gso: AtomicBool,
    gso_faults: AtomicU32,
    /// Locked for writing while fragmentation is allowed, so that no other packet is sent without its
    /// don't-fragment bit.
    fragmentation: RwLock<()>,
    fragmenter: Fragmenter,
    packets: AtomicU64,
    dropped: AtomicU64,
    calls: AtomicU64,
}

impl Sender {
    pub(crate) fn new(is_v6: bool, mapped: bool, gso: bool, fragmenter: Fragmenter) -> Self {
        Self {
            is_v6,
            mapped,
            gso: AtomicBool::new(gso),
            gso_faults: AtomicU32::new(0),
            fragmentation: RwLock::new(()),
            fragmenter,
            packets: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            calls: AtomicU64::new(0),
        }
    }

    pub(crate) fn gso(&self) -> bool {
        self.gso.load(Ordering::Relaxed)
    }

    pub(crate) fn stats(&self) -> SendStats {
        SendStats {
            packets: self.packets.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            calls: self.calls.load(Ordering::Relaxed),
        }
    }

    /// Counts packets that were handed to the kernel elsewhere, with one call.
    pub(crate) fn note_sent(&self, packets: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Implements [`Carrier::send_batch`](crate::Carrier::send_batch).
    pub(crate) fn send_batch(
        &self,
        fd: BorrowedFd<'_>,
        errors: &Errors,
        batch: &mut [Outgoing<'_>],
    ) -> io::Result<()> {
        let refused = |piece: &Piece<'_>, errno| {
            // Raw IPv6 sockets reject an IPv4 address as an invalid argument.
            let foreign = self.is_v6 && !self.mapped && piece.destination.is_ipv4();
            errors.note_refused(fd, piece, if foreign { libc::EAFNOSUPPORT } else { errno });
        };
        self.drive(
            batch,
            |pieces, fragment| self.offer(fd, pieces, fragment),
            || errors.note_pending(),
            refused,
        )
    }

    /// Drops packets to a destination that this carrier can't send to, and reports it as unreachable.
    pub(crate) fn discard(&self, fd: BorrowedFd<'_>, errors: &Errors, outgoing: &mut Outgoing<'_>) {
        let batch = slice::from_mut(outgoing);
        while let Some((piece, _)) = Pieces::of(batch, false).next_with_mode() {
            errors.note_refused(fd, &piece, libc::EAFNOSUPPORT);
            take_off(batch, false, 1, &self.dropped);
        }
    }

    /// Sends the batch by `offer`, which hands pieces of one mode to the kernel and returns how many were
    /// accepted. Calls `pending` after an error that may be about an earlier packet, and `refused` for a
    /// piece that is lost.
    fn drive<'a>(
        &self,
        batch: &mut [Outgoing<'a>],
        mut offer: impl FnMut(Pieces<'_, 'a>, Option<u16>) -> io::Result<usize>,
        mut pending: impl FnMut(),
        mut refused: impl FnMut(&Piece<'a>, i32),
    ) -> io::Result<()> {
        let mut gso = self.gso();
        let mut refused_burst = None;
        let mut retries = 0;
        loop {
            let Some((first, fragment)) = Pieces::of(batch, gso).next_with_mode() else { return Ok(()) };
            let error = match offer(Pieces::of(batch, gso), fragment) {
                Ok(taken) => {
                    self.calls.fetch_add(1, Ordering::Relaxed);
                    take_off(batch, gso, taken, &self.packets);
                    if let Some(errno) = refused_burst.take() {
                        self.note_gso_fault(errno);
                    }
                    retries = 0;
                    continue;
                }
                Err(error) => error,
            };
            let errno = error.raw_os_error().unwrap_or(0);
            match errno {
                libc::EINTR => continue,
                libc::EAGAIN | libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EPIPE => {
                    return Err(error);
                }
                // The device's queue is full (the kernel reports this only to sockets with an error queue).
                // Waiting for the socket to become writable would be wrong, because it is. So the packet is
                // lost like one that a router's full queue drops, and congestion control notices it in the
                // same way.
                libc::ENOBUFS | libc::ENOMEM => {}
                _ if retries < RETRIES_MAX => {
                    retries += 1;
                    pending();
                    continue;
                }
                _ if first.segment_size.is_some() => {
                    // Perhaps only the burst is refused: the device can't segment it, or the segments are too
                    // long.
                    gso = false;
                    refused_burst = Some(errno);
                    retries = 0;
                    continue;
                }
                _ => {
                    tracing::debug!(%error, destination = %first.destination, source = ?first.source, "sending a packet failed");
                    refused(&first, errno);
                }
            }
            refused_burst = None;
            retries = 0;
            take_off(batch, gso, 1, &self.dropped);
        }
    }

    /// Offers pieces of one mode to the kernel; returns how many it accepted.
    fn offer(
        &self,
        fd: BorrowedFd<'_>,
        mut pieces: Pieces<'_, '_>,
        fragment: Option<u16>,
    ) -> io::Result<usize> {
        let Some(size) = fragment else {
            let _shared = self.fragmentation.read().unwrap_or_else(PoisonError::into_inner);
            return message::send(fd, pieces, self.mapped);
        };
        let _exclusive = self.fragmentation.write().unwrap_or_else(PoisonError::into_inner);
        let Some(piece) = pieces.next() else { return Ok(0) };
        self.fragmenter.send(fd, piece, size)?;
        Ok(1)
    }

    /// Notes that packets were accepted one by one after they had been refused as a burst with `errno`.
    fn note_gso_fault(&self, errno: i32) {
        // EIO means that the device has no checksum offload or that IPsec is in the way: GSO will never work.
        // EINVAL can have other reasons. EMSGSIZE is only about the length.
        let faults = match errno {
            libc::EIO => GSO_FAULTS_MAX,
            libc::EMSGSIZE => return,
            _ => self.gso_faults.fetch_add(1, Ordering::Relaxed) + 1,
        };
        if faults >= GSO_FAULTS_MAX && self.gso.swap(false, Ordering::Relaxed) {
            tracing::info!(
                errno,
                "segmentation offload is not available; packets are sent one by one from now on"
            );
        }
    }
}

/// Iterator over the pieces that one call can take, up to the first burst of another mode (with or without
/// fragmentation, and to which size).
struct Pieces<'b, 'a> {
    current: Outgoing<'a>,
    rest: slice::Iter<'b, Outgoing<'a>>,
    gso: bool,
    mode: Option<Option<u16>>,
}

impl<'b, 'a> Pieces<'b, 'a> {
    fn of(batch: &'b [Outgoing<'a>], gso: bool) -> Self {
        let nothing = Outgoing::packet(std::net::SocketAddr::from(([0, 0, 0, 0], 0)), &[]);
        Self { current: nothing, rest: batch.iter(), gso, mode: None }
    }

    /// Returns the first piece, and the size to which it is to be fragmented.
    fn next_with_mode(mut self) -> Option<(Piece<'a>, Option<u16>)> {
        let piece = self.next()?;
        Some((piece, self.mode.unwrap_or(None)))
    }
}

impl<'a> Iterator for Pieces<'_, 'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.current.bytes.is_empty() {
            self.current = *self.rest.next()?;
        }
        let Outgoing { destination, source, bytes, segment_size, fragment, ecn_capable } = self.current;
        if *self.mode.get_or_insert(fragment) != fragment {
            return None;
        }
        let size = if segment_size == 0 { bytes.len() } else { segment_size };
        let segments = if self.gso && fragment.is_none() {
            (GSO_BYTES_MAX / size).clamp(1, GSO_SEGMENTS_MAX)
        } else {
            1
        };
        let (taken, rest) = bytes.split_at_checked(size.saturating_mul(segments)).unwrap_or((bytes, &[]));
        self.current.bytes = rest;
        let segment_size = if taken.len() > size { u16::try_from(size).ok() } else { None };
        Some(Piece { destination, source, bytes: taken, segment_size, ecn_capable })
    }
}

/// Removes `count` pieces from the front of the batch and counts their packets.
fn take_off(batch: &mut [Outgoing<'_>], gso: bool, count: usize, packets: &AtomicU64) {
    let pieces = Pieces::of(batch, gso).take(count.min(SEND_MAX));
    let (mut bytes, number) =
        pieces.fold((0, 0), |(bytes, number), piece| (bytes + piece.bytes.len(), number + piece.packets()));
    packets.fetch_add(number, Ordering::Relaxed);
    for outgoing in batch {
        let part = bytes.min(outgoing.bytes.len());
        outgoing.bytes = outgoing.bytes.get(part..).unwrap_or_default();
        bytes -= part;
        if bytes == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
