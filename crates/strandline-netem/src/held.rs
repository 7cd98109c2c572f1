//! A link that holds the packets until they arrive.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::link::{Arrival, DropReason, Link, Verdict};
use crate::mark::mark;

/// A packet in transit. Ordered by arrival, then by the order in which the packets were offered.
#[derive(Debug, Clone)]
struct OnItsWay<P> {
    arrival_ns: u64,
    number: u64,
    packet: P,
}

impl<P> OnItsWay<P> {
    fn key(&self) -> (u64, u64) {
        (self.arrival_ns, self.number)
    }
}

impl<P> PartialEq for OnItsWay<P> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<P> Eq for OnItsWay<P> {}

impl<P> PartialOrd for OnItsWay<P> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for OnItsWay<P> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// A [`Link`] that holds the packets in transit. `P` holds a packet's bytes: `Vec<u8>`, `Box<[u8]>`, ...
/// Packets that begin with an IP header are marked there
/// ([`LinkConfig::mark_bytes`](crate::LinkConfig::mark_bytes)).
///
/// ```
/// use core::time::Duration;
/// use strandline_netem::{HeldLink, Link, LinkConfig};
///
/// let mut link = HeldLink::new(Link::new(LinkConfig::with_delay(Duration::from_millis(5)), 1));
/// assert!(link.push(0, vec![1, 2, 3]).is_ok(), "a perfect link drops nothing");
/// assert_eq!(link.next_arrival_ns(), Some(5_000_000));
/// assert_eq!(link.poll(4_999_999), None);
/// assert_eq!(link.poll(5_000_000), Some(vec![1, 2, 3]));
/// ```
#[derive(Debug, Clone)]
pub struct HeldLink<P> {
    link: Link,
    /// Packets in order of arrival. Nearly all packets are here, so they need no heap.
    in_order: VecDeque<OnItsWay<P>>,
    /// Packets that arrive out of order.
    out_of_order: BinaryHeap<Reverse<OnItsWay<P>>>,
    number: u64,
    marked_ce: u64,
}

impl<P: AsMut<[u8]> + Clone> HeldLink<P> {
    /// Returns a link with no packet in transit.
    #[must_use]
    pub fn new(link: Link) -> Self {
        Self { link, in_order: VecDeque::new(), out_of_order: BinaryHeap::new(), number: 0, marked_ce: 0 }
    }

    /// Hands a packet to the link.
    ///
    /// # Errors
    /// Returns the reason if the packet is dropped.
    pub fn push(&mut self, now_ns: u64, mut packet: P) -> Result<(), DropReason> {
        let copies = match self.link.offer(now_ns, packet.as_mut().len()) {
            Verdict::Delivered(copies) => copies,
            Verdict::Dropped(reason) => return Err(reason),
        };
        if copies.marked {
            self.marked_ce += u64::from(mark(packet.as_mut()));
        }
        let second = copies.duplicate.map(|arrival| (arrival, packet.clone()));
        self.hold(copies.first, packet);
        if let Some((arrival, packet)) = second {
            self.hold(arrival, packet);
        }
        Ok(())
    }

    fn hold(&mut self, arrival: Arrival, mut packet: P) {
        if let Some(corruption) = arrival.corruption {
            corruption.apply(packet.as_mut());
        }
        let held = OnItsWay { arrival_ns: arrival.arrival_ns, number: self.number, packet };
        self.number += 1;
        if self.in_order.back().is_none_or(|last| last.arrival_ns <= held.arrival_ns) {
            self.in_order.push_back(held);
        } else {
            self.out_of_order.push(Reverse(held));
        }
    }

    /// Returns the next packet that has arrived by `now_ns`.
    pub fn poll(&mut self, now_ns: u64) -> Option<P> {
        self.poll_with_arrival(now_ns).map(|(_, packet)| packet)
    }

    /// Returns the next packet that has arrived by `now_ns`, with its arrival time in nanoseconds.
    pub fn poll_with_arrival(&mut self, now_ns: u64) -> Option<(u64, P)> {
        let in_order = self.in_order.front().map(OnItsWay::key);
        let out_of_order = self.out_of_order.peek().map(|held| held.0.key());
        let from_heap = match (in_order, out_of_order) {
            (Some(a), Some(b)) => b < a,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        let (arrival_ns, _) = if from_heap { out_of_order? } else { in_order? };
        if arrival_ns > now_ns {
            return None;
        }
        let held = if from_heap { self.out_of_order.pop()?.0 } else { self.in_order.pop_front()? };
        Some((held.arrival_ns, held.packet))
    }

    /// Returns the time of the next arrival, when [`poll`](Self::poll) has a packet; `None` if none is in
    /// transit.
    #[must_use]
    pub fn next_arrival_ns(&self) -> Option<u64> {
        let in_order = self.in_order.front().map(|held| held.arrival_ns);
        let out_of_order = self.out_of_order.peek().map(|held| held.0.arrival_ns);
        match (in_order, out_of_order) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Returns the number of packets that met congestion and were marked CE in their IP header. Packets whose
    /// sender doesn't support ECN are counted only in [`LinkStats::marked`](crate::LinkStats::marked).
    #[must_use]
    pub fn marked_ce(&self) -> u64 {
        self.marked_ce
    }

    /// Returns the number of packets in transit, copies included.
    #[must_use]
    pub fn on_their_way(&self) -> usize {
        self.in_order.len() + self.out_of_order.len()
    }

    /// Returns the link, to read or to change.
    pub fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

#[cfg(test)]
mod tests;
