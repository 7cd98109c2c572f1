//! Mailboxes between the shards of a stack, for packets that arrived on the wrong shard and for ICMP messages.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use strandline_proto::event::{Datagram, IcmpError, IcmpKind};

/// Limit of bytes waiting for one shard; letters beyond it are dropped, as by a full socket buffer.
const BYTES_MAX: usize = 1 << 20;
/// Bytes counted for each letter besides its contents.
const LETTER_BYTES: usize = 64;

/// The contents of a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matter {
    /// A packet, and a bit for each shard that doesn't know its association.
    Datagram {
        visited: u64,
        ecn: u8,
    },
    Icmp(IcmpKind),
}

#[derive(Debug, Clone, Copy)]
struct Letter {
    /// The packet's source; for an ICMP message, the destination of the packet that it reports.
    peer: SocketAddr,
    destination: Option<IpAddr>,
    len: usize,
    matter: Matter,
}

/// A queue of letters, whose memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    letters: Vec<Letter>,
    bytes: Vec<u8>,
}

/// A letter as its reader sees it.
#[derive(Debug)]
pub(crate) enum Item<'a> {
    Datagram { datagram: Datagram<'a>, visited: u64 },
    Icmp(IcmpError<'a>),
}

impl Mail {
    pub(crate) fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    fn clear(&mut self) {
        self.letters.clear();
        self.bytes.clear();
    }

    fn size(&self) -> usize {
        self.bytes.len() + self.letters.len() * LETTER_BYTES
    }

    pub(crate) fn push_datagram(&mut self, datagram: &Datagram<'_>, visited: u64) {
        self.push(
            datagram.source,
            datagram.destination,
            datagram.bytes,
            Matter::Datagram { visited, ecn: datagram.ecn },
        );
    }

    fn push(&mut self, peer: SocketAddr, destination: Option<IpAddr>, bytes: &[u8], matter: Matter) {
        self.letters.push(Letter { peer, destination, len: bytes.len(), matter });
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends letters as far as there is room, and returns how many were dropped.
    fn append(&mut self, other: &mut Self) -> u64 {
        if self.is_empty() && other.size() <= BYTES_MAX {
            std::mem::swap(self, other);
            return 0;
        }
        let mut lost = 0;
        for (letter, bytes) in other.letters() {
            if self.size() + bytes.len() + LETTER_BYTES > BYTES_MAX {
                lost += 1;
            } else {
                self.push(letter.peer, letter.destination, bytes, letter.matter);
            }
        }
        other.clear();
        lost
    }

    fn letters(&self) -> impl Iterator<Item = (&Letter, &[u8])> {
        let mut rest = &self.bytes[..];
        self.letters.iter().map(move |letter| {
            let (bytes, behind) = rest.split_at_checked(letter.len).unwrap_or_default();
            rest = behind;
            (letter, bytes)
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Item<'_>> {
        self.letters().map(|(letter, bytes)| match letter.matter {
            Matter::Datagram { visited, ecn } => {
                let datagram = Datagram { source: letter.peer, destination: letter.destination, bytes, ecn };
                Item::Datagram { datagram, visited }
            }
            Matter::Icmp(kind) => Item::Icmp(IcmpError { destination: letter.peer, kind, quoted: bytes }),
        })
    }
}

#[derive(Debug, Default)]
struct Inside {
    mail: Mail,
    reader: Option<Waker>,
    /// The reading shard has ended.
    closed: bool,
}

/// Aligned so that no two mailboxes share a cache line, or the pair of lines that processors prefetch together.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Mailbox {
    /// The mailbox is not empty; read without taking the lock.
    full: AtomicBool,
    inside: Mutex<Inside>,
    sent: AtomicU64,
    received: AtomicU64,
    lost: AtomicU64,
    /// Number of the shard's associations whose peer has several addresses, or had others.
    multihomed: AtomicU32,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counters of letters between a shard and the others.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) lost: u64,
}

/// The mailboxes of all shards. In steady state a shard only reads a flag that no other shard writes.
#[derive(Debug)]
pub(crate) struct Post {
    boxes: Vec<Mailbox>,
}

impl Post {
    pub(crate) fn new(shards: u16) -> Self {
        Self { boxes: (0..shards).map(|_| Mailbox::default()).collect() }
    }

    /// Registers the task that is woken by letters to a shard.
    pub(crate) fn register(&self, shard: u16, reader: &Waker) {
        if let Some(mailbox) = self.boxes.get(usize::from(shard)) {
            mailbox.lock().reader = Some(reader.clone());
        }
    }

    /// Closes a shard's mailbox: further letters are dropped.
    pub(crate) fn close(&self, shard: u16) {
        if let Some(mailbox) = self.boxes.get(usize::from(shard)) {
            let mut inside = mailbox.lock();
            *inside = Inside { closed: true, ..Inside::default() };
            drop(inside);
            mailbox.multihomed.store(0, Ordering::Relaxed);
        }
    }

    /// Exchanges a shard's letters for an empty `mail`. Returns false if there are none.
    pub(crate) fn fetch(&self, shard: u16, mail: &mut Mail) -> bool {
        let Some(mailbox) = self.boxes.get(usize::from(shard)) else { return false };
        if !mailbox.full.load(Ordering::Acquire) {
            return false;
        }
        mail.clear();
        let mut inside = mailbox.lock();
        std::mem::swap(&mut inside.mail, mail);
        mailbox.full.store(false, Ordering::Release);
        drop(inside);
        mailbox.received.fetch_add(mail.letters.len() as u64, Ordering::Relaxed);
        !mail.is_empty()
    }

    /// Appends letters to a shard's mailbox; `mail` is empty afterwards. The caller wakes `to_wake` once it
    /// holds no lock.
    pub(crate) fn deliver(&self, from: u16, to: u16, mail: &mut Mail, to_wake: &mut Vec<Waker>) {
        let letters = mail.letters.len() as u64;
        let Some(mailbox) = self.boxes.get(usize::from(to)) else { return mail.clear() };
        let mut inside = mailbox.lock();
        let lost = if inside.closed {
            mail.clear();
            letters
        } else {
            let was_empty = inside.mail.is_empty();
            let lost = inside.mail.append(mail);
            if was_empty {
                to_wake.extend(inside.reader.clone());
            }
            mailbox.full.store(true, Ordering::Release);
            lost
        };
        drop(inside);
        mailbox.lost.fetch_add(lost, Ordering::Relaxed);
        if let Some(sender) = self.boxes.get(usize::from(from)) {
            sender.sent.fetch_add(letters, Ordering::Relaxed);
        }
    }

    /// Sends an ICMP message to all other shards.
    pub(crate) fn broadcast(&self, from: u16, error: &IcmpError<'_>, to_wake: &mut Vec<Waker>) {
        for to in (0..self.boxes.len() as u16).filter(|to| *to != from) {
            let mut mail = Mail::default();
            mail.push(error.destination, None, error.quoted, Matter::Icmp(error.kind));
            self.deliver(from, to, &mut mail, to_wake);
        }
    }

    /// Sets the number of a shard's associations whose peers have several addresses, or had others.
    pub(crate) fn set_multihomed(&self, shard: u16, count: u32) {
        if let Some(mailbox) = self.boxes.get(usize::from(shard))
            && mailbox.multihomed.load(Ordering::Relaxed) != count
        {
            mailbox.multihomed.store(count, Ordering::Relaxed);
        }
    }

    /// Returns whether another shard has an association whose peer has several addresses, or had others.
    pub(crate) fn multihomed_elsewhere(&self, shard: u16) -> bool {
        let others = self.boxes.iter().enumerate().filter(|(index, _)| *index != usize::from(shard));
        others.map(|(_, mailbox)| mailbox.multihomed.load(Ordering::Relaxed)).any(|count| count > 0)
    }

    pub(crate) fn traffic(&self, shard: u16) -> Traffic {
        let counted = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.boxes.get(usize::from(shard)).map_or_else(Traffic::default, |mailbox| Traffic {
            sent: counted(&mailbox.sent),
            received: counted(&mailbox.received),
            lost: counted(&mailbox.lost),
        })
    }
}

#[cfg(test)]
mod tests;
