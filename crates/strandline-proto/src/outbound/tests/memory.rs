//! The memory of an idle association, and of a chunk.

use allocation_counter::measure;

use super::*;

#[test]
fn outbound_is_small_and_idle_without_heap() {
    assert!(size_of::<Outbound>() <= 64, "{}", size_of::<Outbound>());
    assert!(size_of::<Record>() <= 16);
    assert!(size_of::<crate::outbound::messages::Message>() <= 56);
    let mut fixture = Fixture::new();
    assert_eq!(fixture.out.heap(), super::super::state::OutboundHeap::default());
    fixture.push(1);
    assert_eq!(fixture.out.heap().fixed, size_of::<Busy>());
    assert!(fixture.out.heap_bytes() > size_of::<Busy>());
    fixture.packet(0);
    fixture.out.release_idle();
    assert!(fixture.out.heap_bytes() > 0, "still outstanding");
    fixture.sack(1, &[]);
    fixture.out.release_idle();
    assert_eq!(fixture.out.heap_bytes(), 0);
}

/// Messages are pushed, sent in fragments and bundles, and acknowledged: the rings have their size and nothing is
/// allocated.
#[test]
fn steady_state_allocates_nothing() {
    let mut rig = Rig::new();
    let warm = measure(|| rig.rounds(200, Rig::acknowledge));
    let steady = measure(|| rig.rounds(2000, Rig::acknowledge));
    assert!(warm.count_total > 0);
    assert_eq!(steady.count_total, 0, "{steady:?}");
    assert!(rig.out.next_tsn().distance_from(Tsn(INITIAL)) > 10_000);
}

/// Gaps, fast retransmissions and time-outs allocate nothing either.
#[test]
fn steady_loss_allocates_nothing() {
    let mut rig = Rig::new();
    rig.rounds(200, Rig::acknowledge_with_loss);
    let steady = measure(|| rig.rounds(2000, Rig::acknowledge_with_loss));
    assert_eq!(steady.count_total, 0, "{steady:?}");
    assert!(rig.sent_again > 1000);
}

/// `Bytes` clones share one buffer, so that only the allocations of `Outbound` are counted.
struct Rig {
    out: Outbound,
    config: AssociationConfig,
    message: Bytes,
    sack: Vec<u8>,
    sent_again: u32,
}

impl Rig {
    fn new() -> Self {
        Self {
            out: Outbound::new(Tsn(INITIAL), 1 << 20, 10),
            config: AssociationConfig { recovery: Recovery::Rfc9260, ..AssociationConfig::default() },
            message: message(5000),
            sack: vec![0; 200],
            sent_again: 0,
        }
    }

    fn rounds(&mut self, rounds: u32, acknowledge: fn(&mut Self, u32)) {
        for round in 0..rounds {
            for len in [5000, 64, 1000] {
                let info = SendInfo { stream: StreamId((round % 10) as u16), ..SendInfo::default() };
                self.out
                    .push(Time::ZERO, info, &mut self.message.slice(..len), &self.config, |_| {
                        self.config.send_buffer_start()
                    })
                    .unwrap();
            }
            self.send();
            acknowledge(self, round);
        }
    }

    fn send(&mut self) {
        loop {
            let mut space = ROOM;
            while let Some(data) = self.out.next_retransmission(Time::ZERO, at(0), space) {
                space -= 16 + data.payload.len().next_multiple_of(4);
                self.sent_again += 1;
            }
            while let Some(data) = self.out.next_new(Time::ZERO, at(0), space, ROOM) {
                space -= 16 + data.payload.len().next_multiple_of(4);
            }
            if space == ROOM {
                return;
            }
        }
    }

    fn take_sack(&mut self, cumulative: Tsn, blocks: &[GapBlock]) {
        let mut packet = PacketBuilder::new(&mut self.sack, 1, 2, VerificationTag(3));
        assert!(sack::write(&mut packet, cumulative, 1 << 20, blocks.iter().copied(), &[]));
        let len = packet.finish();
        let outcome = self.out.on_sack(Time::ZERO, &decode_sack(&self.sack[..len]), &mut Acks::default());
        applied(outcome);
    }

    fn acknowledge(&mut self, _round: u32) {
        self.take_sack(self.out.next_tsn().previous(), &[]);
    }

    /// The first outstanding chunk is lost, detected by three SACKs; every tenth time by T3-rtx.
    fn acknowledge_with_loss(&mut self, round: u32) {
        let point = self.out.cumulative_ack();
        let last = self.out.next_tsn().previous();
        let count = last.distance_from(point) as u16;
        for end in [count - 2, count - 1, count] {
            self.take_sack(point, &[GapBlock { start: 2, end: 3 }, GapBlock { start: 5, end }]);
        }
        if round.is_multiple_of(10) {
            self.out.on_timeout(at(0), false);
        }
        self.send();
        self.take_sack(last, &[]);
    }
}
