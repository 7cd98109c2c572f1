//! Collects errors about undelivered packets from the kernel until the caller polls them.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sys::error_queue::{self, QueuedError};
use crate::sys::message::Piece;
use crate::{IcmpKind, IcmpReport};

/// Number of bytes kept of a quoted packet: the common header and INIT's fixed part fit, and it is more than
/// ICMP is required to quote.
const QUOTED_MAX: usize = 128;
/// Number of bytes of a packet that identify its association: ports and tag.
const ASSOCIATION_LEN: usize = 8;
/// Maximum number of reports kept until the caller polls them; older ones are dropped.
const REPORTS_MAX: usize = 128;
/// Maximum number of entries taken from the kernel's queue at once, so that a flood of ICMP messages can't
/// hold up the caller.
const DRAIN_MAX: usize = 256;

#[derive(Debug)]
struct Report {
    destination: SocketAddr,
    kind: IcmpKind,
    quoted: Box<[u8]>,
}

#[derive(Debug, Default)]
struct State {
    reports: VecDeque<Report>,
    /// The destination and the MTU that the kernel reported when it last refused a packet itself.
    local_mtu: Option<(IpAddr, u32)>,
}

impl State {
    fn push(&mut self, destination: SocketAddr, kind: IcmpKind, quoted: &[u8]) {
        // A burst of packets that are all too long reports the same error many times. Repeats of one
        // association, identified by its ports and tag, are dropped.
        let association = quoted.get(..ASSOCIATION_LEN);
        let repeats = |last: &Report| {
            last.destination == destination
                && last.kind == kind
                && last.quoted.get(..ASSOCIATION_LEN) == association
        };
        if self.reports.back().is_some_and(repeats) {
            return;
        }
        if self.reports.len() >= REPORTS_MAX {
            self.reports.pop_front();
        }
        let quoted = quoted.get(..QUOTED_MAX).unwrap_or(quoted).into();
        self.reports.push_back(Report { destination, kind, quoted });
    }
}

/// The errors of one socket.
#[derive(Debug)]
pub(crate) struct Errors {
    encapsulated: bool,
    state: Mutex<State>,
    pending: AtomicBool,
}

impl Errors {
    pub(crate) fn new(encapsulated: bool) -> Self {
        Self { encapsulated, state: Mutex::default(), pending: AtomicBool::new(false) }
    }

    pub(crate) fn pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }

    /// Notes that a system call returned the socket's pending error, which stands for an entry in the queue.
    pub(crate) fn note_pending(&self) {
        self.pending.store(true, Ordering::Relaxed);
    }

    /// Notes that the kernel refused to send `piece`.
    pub(crate) fn note_refused(&self, fd: BorrowedFd<'_>, piece: &Piece<'_>, errno: i32) {
        let mut state = self.lock();
        let kind = match errno {
            libc::EMSGSIZE => {
                self.drain(fd, &mut state);
                let ip = piece.destination.ip().to_canonical();
                let mtu = state.local_mtu.filter(|(of, _)| *of == ip).map_or(0, |(_, mtu)| mtu);
                IcmpKind::PacketTooBig { mtu }
            }
            // EPERM is returned by netfilter, which may drop one packet and let the next one pass (a limit, a full
            // table of connections), EADDRNOTAVAIL while a source address is not there yet.
            libc::EPERM | libc::EADDRNOTAVAIL => IcmpKind::HostUnreachable,
            // EINVAL and EACCES are also returned for routes of type blackhole and prohibit.
            libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::ENETDOWN
            | libc::EHOSTDOWN
            | libc::EAFNOSUPPORT
            | libc::EINVAL
            | libc::EACCES => IcmpKind::NoRoute,
            _ => return,
        };
        state.push(piece.destination, kind, piece.bytes);
        self.note_pending();
    }

    /// Calls `report` for every error not yet reported. Returns the number of reports.
    pub(crate) fn poll(&self, fd: BorrowedFd<'_>, report: &mut dyn FnMut(IcmpReport<'_>)) -> usize {
        let mut state = self.lock();
        self.pending.store(false, Ordering::Relaxed);
        self.drain(fd, &mut state);
        let reports = std::mem::take(&mut state.reports);
        drop(state);
        for Report { destination, kind, quoted } in &reports {
            report(IcmpReport { destination: *destination, kind: *kind, quoted });
        }
        reports.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over the errors that the kernel has queued.
    fn drain(&self, fd: BorrowedFd<'_>, state: &mut State) {
        let mut buffer = [0; QUOTED_MAX];
        for _ in 0..DRAIN_MAX {
            match error_queue::receive(fd, &mut buffer) {
                Ok(Some(entry)) => {
                    self.note_entry(state, &entry, buffer.get(..entry.len).unwrap_or_default())
                }
                Ok(None) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::debug!(%error, "reading the socket's error queue failed");
                    return;
                }
            }
        }
        self.note_pending();
    }

    fn note_entry(&self, state: &mut State, entry: &QueuedError, quoted: &[u8]) {
        let Some(mut destination) = entry.destination else { return };
        let kind = match entry.origin {
            libc::SO_EE_ORIGIN_ICMP => {
                IcmpKind::from_v4(entry.kind, entry.code, entry.info, self.encapsulated)
            }
            libc::SO_EE_ORIGIN_ICMP6 => {
                IcmpKind::from_v6(entry.kind, entry.code, entry.info, self.encapsulated)
            }
            libc::SO_EE_ORIGIN_LOCAL if entry.errno == libc::EMSGSIZE as u32 => {
                // The entry quotes nothing and lacks the port: `note_refused` makes the report, and only the
                // MTU is new.
                state.local_mtu = Some((destination.ip(), entry.info));
                None
            }
            _ => None,
        };
        if !self.encapsulated {
            destination.set_port(0);
        }
        if let Some(kind) = kind {
            tracing::trace!(%destination, ?kind, "ICMP message received");
            state.push(destination, kind, quoted);
        }
    }
}

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
