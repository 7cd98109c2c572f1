//! The memory of an idle association, and of a message in steady state.

use allocation_counter::measure;

use super::*;

#[test]
fn an_idle_one_is_small() {
    assert!(size_of::<Inbound>() <= 128, "{}", size_of::<Inbound>());
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

/// Whole messages and messages in fragments, from several associations at a time, with a reader that keeps up.
#[test]
fn a_steady_state_allocates_nothing() {
    let mut arena = Arena::default();
    let mut associations: Vec<Inbound> = (0..4).map(|_| Inbound::new(Tsn(0), 1000, 1 << 20)).collect();
    let config = AssociationConfig::default();
    let payload = [7; 1400];
    let mut packet = [0; 1500];
    let mut numbers = [(0_u32, 0_u16); 4];
    let mut run = |messages: u32| {
        let mut received = 0;
        for round in 0..messages {
            for fragment in 0..6 {
                for (inbound, (tsn, ssn)) in associations.iter_mut().zip(&mut numbers) {
                    let single = round % 2 == 0;
                    let beginning = single || fragment == 0;
                    let ending = single || fragment == 5;
                    let data = Data { beginning, ending, ..whole(*tsn, *ssn, &payload) };
                    assert!(matches!(
                        inbound.on_data(&data, &mut arena, 1 << 19),
                        DataOutcome::Accepted { .. }
                    ));
                    inbound.on_packet_end(NOW, false, &config, || 1 << 20);
                    if inbound.sack_due(NOW) {
                        let mut packet = PacketBuilder::new(&mut packet, 1, 2, VerificationTag(3));
                        assert!(inbound.write_sack(NOW, &mut packet, usize::MAX));
                    }
                    *tsn += 1;
                    *ssn = ssn.wrapping_add(u16::from(ending));
                    while let Some(message) = inbound.recv() {
                        received += message.data.len();
                    }
                }
            }
        }
        received
    };
    run(100);
    let mut received = 0;
    let info = measure(|| received = run(1000));
    assert_eq!(received, 1000 * 6 * 4 * 1400);
    assert_eq!(info.count_total, 0, "{info:?}");
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
