//! Mail between the shards of a stack: packets that came to the wrong one, and ICMP messages.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use strandline_proto::event::{Datagram, IcmpError, IcmpKind};

/// Bytes that wait for one shard, at most; what finds no room is lost, as in a full socket.
const BYTES_MAX: usize = 1 << 20;
/// What each letter counts for besides its bytes.
const LETTER_BYTES: usize = 64;

/// What a letter is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matter {
    /// A packet, and which shards said that they don't know its association: a bit for each.
    Datagram {
        asked: u64,
        ecn: u8,
    },
    Icmp(IcmpKind),
}

#[derive(Debug, Clone, Copy)]
struct Letter {
    /// Whom it came from or, of an ICMP message, where the packet had been sent to.
    peer: SocketAddr,
    destination: Option<IpAddr>,
    len: usize,
    matter: Matter,
}

/// Letters in their order. Its memory is used again.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    letters: Vec<Letter>,
    bytes: Vec<u8>,
}

/// A letter as its reader sees it.
#[derive(Debug)]
pub(crate) enum Item<'a> {
    Datagram { datagram: Datagram<'a>, asked: u64 },
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

    pub(crate) fn push_datagram(&mut self, datagram: &Datagram<'_>, asked: u64) {
        self.push(
            datagram.source,
            datagram.destination,
            datagram.bytes,
            Matter::Datagram { asked, ecn: datagram.ecn },
        );
    }

    fn push(&mut self, peer: SocketAddr, destination: Option<IpAddr>, bytes: &[u8], matter: Matter) {
        self.letters.push(Letter { peer, destination, len: bytes.len(), matter });
        self.bytes.extend_from_slice(bytes);
    }

    /// Moves letters behind those that are here already, as far as there is room, and tells how many found none.
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
            Matter::Datagram { asked, ecn } => {
                let datagram = Datagram { source: letter.peer, destination: letter.destination, bytes, ecn };
                Item::Datagram { datagram, asked }
            }
            Matter::Icmp(kind) => Item::Icmp(IcmpError { destination: letter.peer, kind, quoted: bytes }),
        })
    }
}

#[derive(Debug, Default)]
struct Inside {
    mail: Mail,
    reader: Option<Waker>,
    /// The reader is gone.
    closed: bool,
}

/// Aligned so that no two share a cache line, nor the pair of lines that processors fetch at once.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Mailbox {
    /// There is something inside: a look that needs no lock.
    full: AtomicBool,
    inside: Mutex<Inside>,
    sent: AtomicU64,
    received: AtomicU64,
    lost: AtomicU64,
    /// Associations of the shard whose peer has several addresses.
    multihomed: AtomicU32,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What went between a shard and the others.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) lost: u64,
}

/// The mailboxes of all shards. In steady state nothing but a flag that nobody else writes is looked at.
#[derive(Debug)]
pub(crate) struct Post {
    boxes: Vec<Mailbox>,
}

impl Post {
    pub(crate) fn new(shards: u16) -> Self {
        Self { boxes: (0..shards).map(|_| Mailbox::default()).collect() }
    }

    /// From now on letters to a shard wake this task.
    pub(crate) fn register(&self, shard: u16, reader: &Waker) {
        if let Some(mailbox) = self.boxes.get(usize::from(shard)) {
            mailbox.lock().reader = Some(reader.clone());
        }
    }

    /// No letters to this shard any more.
    pub(crate) fn close(&self, shard: u16) {
        if let Some(mailbox) = self.boxes.get(usize::from(shard)) {
            let mut inside = mailbox.lock();
            *inside = Inside { closed: true, ..Inside::default() };
            drop(inside);
            mailbox.multihomed.store(0, Ordering::Relaxed);
        }
    }

    /// Exchanges what has come for a shard for an empty `mail`. False if nothing has.
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

    /// Brings mail, which is empty afterwards, to a shard. The caller wakes who is to be woken once it holds no lock.
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

    /// Tells all other shards of an ICMP message.
    pub(crate) fn tell_all(&self, from: u16, error: &IcmpError<'_>, to_wake: &mut Vec<Waker>) {
        for to in (0..self.boxes.len() as u16).filter(|to| *to != from) {
            let mut mail = Mail::default();
            mail.push(error.destination, None, error.quoted, Matter::Icmp(error.kind));
            self.deliver(from, to, &mut mail, to_wake);
        }
    }

    /// How many of a shard's associations have peers with several addresses.
    pub(crate) fn set_multihomed(&self, shard: u16, count: u32) {
        if let Some(mailbox) = self.boxes.get(usize::from(shard))
            && mailbox.multihomed.load(Ordering::Relaxed) != count
        {
            mailbox.multihomed.store(count, Ordering::Relaxed);
        }
    }

    /// True if another shard has an association whose peer has several addresses.
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
