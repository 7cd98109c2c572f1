//! TSNs wrap after 2^32 - 1 (RFC 9260 section 1.6): marks are compared by order, not by value, and their state does
//! not apply to the same number later.

use super::*;
use crate::outbound::Outbound;

impl Raw {
    /// Makes `next` the server's next TSN, as if it had sent all those before. Nothing may be outstanding.
    fn skip_to(&mut self, next: Tsn) {
        let association = self.pair.hosts[SERVER].endpoint.table.by_id_mut(self.server).expect("it lives");
        assert!(association.outbound.is_empty());
        association.outbound = Outbound::new(next, 1 << 20, 100);
        self.server_tsn = next;
    }
}

impl Flow {
    /// As [`grown`](Self::grown), with TSN 0 in the middle of what is outstanding.
    fn grown_across(congestion: Algorithm, recovery: Recovery) -> Self {
        let known = Self::grown(congestion, recovery);
        let middle = (known.acked + known.next) / 2;
        let mut flow = Self { raw: agreed_with(congestion, recovery), acked: 0, next: 0 };
        flow.raw.skip_to(Tsn(0_u32.wrapping_sub(middle)));
        flow.grow();
        let (lowest, next) = (flow.raw.server_tsn + flow.acked, flow.raw.server_tsn + flow.next);
        assert!(lowest.0 > u32::MAX - 100 && next.0 < 100 && next.0 > 10, "{lowest:?} to {next:?}");
        flow
    }

    /// Makes `next` the next TSN and sends as much as allowed.
    fn go_on_from(&mut self, next: Tsn) {
        self.raw.skip_to(next);
        (self.acked, self.next) = (0, 0);
        self.raw.pair.send(SERVER, self.raw.server, 0, &[1; 200_000]);
        let heard = self.raw.heard();
        self.count(&heard);
    }

    /// Sends everything and acknowledges it.
    fn finish(&mut self) {
        for _ in 0..200 {
            if self.raw.server().status(self.raw.server).unwrap().send_buffered == 0 {
                return;
            }
            self.acknowledge();
        }
        panic!("it does not end: {:?}", self.path());
    }

    /// Returns the number of the chunk with TSN 0, counted from the first outstanding one.
    fn zero(&self) -> u32 {
        Tsn(0).distance_from(self.raw.server_tsn) - self.acked
    }
}

/// The receiver's side.
#[test]
fn marks_are_echoed_across_the_wrap_until_cwr() {
    let mut raw = agreed_from(Algorithm::Rfc9260, Recovery::Rfc9260, Tsn(u32::MAX - 3));
    assert_eq!(ecnes(&raw.say_marked(0, 0b10)), []);
    assert_eq!(ecnes(&raw.say_marked(1, 0b11)), [(Tsn(u32::MAX - 2), true)]);
    // Number 4 is TSN 0. It is marked too, as is what follows.
    let told: Vec<_> = (2..8).flat_map(|number| ecnes(&raw.say_marked(number, 0b11))).collect();
    assert!(told.len() >= 2 && told.iter().all(|told| *told == (Tsn(u32::MAX - 2), true)), "{told:?}");
    raw.say_all(&[&Cwr { lowest_tsn: Tsn(u32::MAX - 3) }]);
    assert!(!(8..10).flat_map(|number| ecnes(&raw.say_marked(number, 0b10))).collect::<Vec<_>>().is_empty());
    raw.say_all(&[&Cwr { lowest_tsn: Tsn(1) }]);
    let told: Vec<_> = (10..14).flat_map(|number| ecnes(&raw.say_marked(number, 0b10))).collect();
    assert_eq!(told, [], "it answers what is older than TSN 1");
    assert_eq!(ecnes(&raw.say_marked(14, 0b11)), [(Tsn(10), true)]);
}

/// The sender's side: data sent before the reduction ends beyond TSN 0, and its marks on both sides count once.
#[test]
fn marks_around_the_wrap_share_a_window() {
    for (congestion, recovery) in ALIKE {
        let mut flow = Flow::grown_across(congestion, recovery);
        let before = flow.raw.cwnd();
        flow.mark(0);
        let once = flow.raw.cwnd();
        assert!(once < before / 100 * 71, "{congestion:?} {recovery:?}: {once} of {before}");
        let zero = flow.zero();
        for beyond in [zero - 1, zero, zero + 5] {
            flow.mark(beyond);
            assert_eq!(flow.raw.cwnd(), once, "{congestion:?} {recovery:?}: {beyond}");
        }
        assert!(flow.lose() >= once, "{congestion:?} {recovery:?}: {:?}", flow.path());
        // The first mark of the next window counts.
        flow.acknowledge();
        flow.mark_counts((congestion, recovery));
    }
}

/// A loss or a time-out comes first, and data sent before it lies beyond TSN 0.
#[test]
fn loss_before_the_wrap_covers_later_marks() {
    for (congestion, recovery) in ALIKE {
        let mut flow = Flow::grown_across(congestion, recovery);
        flow.lose();
        let (now, zero) = (flow.raw.cwnd(), flow.zero());
        flow.mark(zero + 3);
        assert_eq!(flow.raw.cwnd(), now, "{congestion:?} {recovery:?}");
        let mut flow = Flow::grown_across(congestion, recovery);
        flow.time_out();
        let zero = flow.zero();
        flow.marks_to_no_effect(zero + 3, &format!("{congestion:?} {recovery:?}"));
    }
}

/// 2^32 chunks later the same number belongs to another chunk. The earlier report of its mark does not matter.
#[test]
fn reused_tsn_of_an_old_mark_counts() {
    for (congestion, recovery) in ALIKE {
        let mut flow = Flow::grown(congestion, recovery);
        flow.mark(0);
        let (once, marked) = (flow.raw.cwnd(), flow.raw.server_tsn + flow.acked);
        flow.finish();
        for ahead in [1 << 30, 1 << 31, 3 << 30] {
            flow.go_on_from(marked + ahead);
            flow.finish();
        }
        flow.go_on_from(Tsn(marked.0.wrapping_sub(2)));
        let before = flow.raw.cwnd();
        assert!(before >= once && flow.next > 2, "{before} {once} {}", flow.next);
        flow.mark(2);
        assert!(
            flow.raw.cwnd() < before / 100 * 85,
            "{congestion:?} {recovery:?}: {} of {before}",
            flow.raw.cwnd()
        );
    }
}
