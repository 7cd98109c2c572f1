//! The memory of an idle association, and of a message in steady state.

use allocation_counter::measure;

use super::*;

#[test]
fn an_idle_one_is_small() {
    assert!(size_of::<Inbound>() <= 136, "{}", size_of::<Inbound>());
    let info = measure(|| {
        core::hint::black_box(Inbound::new(Tsn(1), u16::MAX, 1 << 20));
    });
    assert_eq!(info.count_total, 0);
}

#[test]
fn memory_is_given_back_when_idle() {
    let mut rig = Rig::new();
    rig.take(&whole(FIRST + 1, 1, b"second"));
    rig.take(&whole(FIRST, 0, b"first"));
    rig.take(&whole(FIRST, 0, b"first"));
    rig.take(&unordered(end(FIRST + 3, 0, b"ending")));
    let heap_max = rig.inbound.heap_bytes();
    rig.take(&unordered(begin(FIRST + 2, 0, b"beginning and ")));
    assert_eq!(rig.texts(), ["first", "second", "beginning and ending"]);
    rig.sack();
    let kept = measure(|| rig.inbound.release_idle());
    assert!(heap_max > 200 && kept.bytes_current < -200, "{heap_max}, {kept:?}");
    assert_eq!(rig.inbound.heap_bytes(), 0);
}

/// Whole messages and messages in fragments, from several associations at a time, with a reader that keeps up. The
/// longest messages are delivered in parts.
#[test]
fn a_steady_state_allocates_nothing() {
    for fragments in [6, 60, 300, 1500] {
        let mut crowd = Crowd::new();
        let warm_up = 100.max(4 * fragments) / fragments;
        crowd.run(warm_up, fragments);
        let mut received = 0;
        let info = measure(|| received = crowd.run(6000 / fragments, fragments));
        assert_eq!(received, 6000 * 4 * 1400, "{fragments} fragments");
        assert_eq!(info.count_total, 0, "{fragments} fragments: {info:?}");
    }
}

/// Associations that share an arena, with the next TSN and SSN of each.
struct Crowd {
    arena: Arena,
    associations: Vec<(Inbound, u32, u16)>,
}

impl Crowd {
    fn new() -> Self {
        let associations = (0..4).map(|_| (Inbound::new(Tsn(0), 1000, 1 << 20), 0, 0));
        Self { arena: Arena::default(), associations: associations.collect() }
    }

    /// Lets each association receive so many rounds of `fragments` chunks, alternately as that many messages
    /// and as one. Returns the bytes read.
    fn run(&mut self, rounds: usize, fragments: usize) -> usize {
        let config = AssociationConfig::default();
        let payload = [7; 1400];
        let mut packet = [0; 1500];
        let mut received = 0;
        for (round, fragment) in (0..rounds).flat_map(|round| (0..fragments).map(move |at| (round, at))) {
            for (inbound, tsn, ssn) in &mut self.associations {
                let single = round % 2 == 1;
                let beginning = single || fragment == 0;
                let ending = single || fragment == fragments - 1;
                let data = Data { beginning, ending, ..whole(*tsn, *ssn, &payload) };
                let outcome = inbound.on_data(&data, &mut self.arena, 1 << 19);
                assert!(matches!(outcome, DataOutcome::Accepted { .. }));
                inbound.on_packet_end(NOW, false, &config, || 1 << 20);
                if inbound.sack_due(NOW) {
                    let mut packet = PacketBuilder::new(&mut packet, 1, 2, VerificationTag(3));
                    assert!(inbound.write_sack(NOW, &mut packet, usize::MAX, false));
                }
                *tsn += 1;
                *ssn = ssn.wrapping_add(u16::from(ending));
                while let Some(message) = inbound.recv() {
                    received += message.data.len();
                }
            }
        }
        received
    }
}

/// Held data does not pin the arena's blocks.
#[test]
fn held_data_has_allocations_of_its_own() {
    let mut rig = Rig::new();
    let mut tsn = FIRST;
    for ssn in 0..200_u16 {
        // Stream 1 waits for its first message for ever; stream 0 moves 64 KiB in between.
        rig.take(&on_stream(1, whole(tsn, 1 + ssn, b"waits")));
        tsn += 1;
        for number in 0..50 {
            rig.take(&whole(tsn, ssn * 50 + number, &[7; 1400]));
            tsn += 1;
        }
        while rig.recv().is_some() {}
        rig.sack();
    }
    assert!(rig.arena.heap_bytes() <= 5 << 16, "{}", rig.arena.heap_bytes());
    let info = measure(|| drop(core::mem::take(&mut rig.arena)));
    assert!(-info.bytes_current >= 64 << 10, "the arena alone had its blocks: {info:?}");
}

/// Fragmented messages that are complete before their turn.
#[test]
fn early_messages_have_their_own_allocations() {
    let mut rig = Rig::new();
    for number in 0..100 {
        rig.take(&begin(FIRST + 2 * number, 1 + number as u16, b"waits "));
        rig.take(&end(FIRST + 2 * number + 1, 1 + number as u16, b"for long"));
    }
    rig.arena.release_idle();
    assert_eq!(rig.arena.heap_bytes(), 0);
}

/// A message whose sender pauses in the middle of it is moved out of its block when the association is idle.
#[test]
fn a_pausing_message_does_not_pin_a_block() {
    let mut rig = Rig::new();
    rig.take(&begin(FIRST, 0, b"to be "));
    rig.inbound.release_idle();
    rig.arena.release_idle();
    assert_eq!(rig.arena.heap_bytes(), 0);
    rig.take(&end(FIRST + 1, 0, b"continued"));
    assert_eq!(rig.texts(), ["to be continued"]);
}
