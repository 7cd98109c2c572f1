#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use core::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{LinkConfig, Loss, Reordering};

const MS: u64 = 1_000_000;

#[test]
fn a_dropped_packet_says_why() {
    let mut link = HeldLink::new(Link::new(LinkConfig::default().loss(Loss::EveryNth(2)), 0));
    assert_eq!(link.push(0, vec![1]), Ok(()));
    assert_eq!(link.push(0, vec![2]), Err(DropReason::Loss));
    assert_eq!(link.on_their_way(), 1);
}

#[test]
fn duplicates_are_damaged_one_by_one() {
    let config = LinkConfig { duplication: 1.0, corruption: 0.5, ..LinkConfig::default() };
    let mut link = HeldLink::new(Link::new(config, 4));
    let mut different = 0;
    for _ in 0..100 {
        link.push(0, vec![0u8; 64]).expect("nothing is lost");
        let (one, two) = (link.poll(0).expect("a packet"), link.poll(0).expect("its copy"));
        different += u32::from(one != two);
    }
    // Exactly one of the two copies is corrupted in half of the cases; both, differently, in a quarter.
    assert!((60..90).contains(&different), "{different}");
    assert_eq!(link.poll(u64::MAX), None);
}

proptest! {
    #[test]
    fn packets_come_out_in_order_of_arrival(gaps in proptest::collection::vec(0u64..2 * MS, 1..200), seed: u64) {
        let config = LinkConfig {
            jitter: Duration::from_millis(1),
            reordering: Reordering { probability: 0.3, extra_delay_max: Duration::from_millis(20) },
            duplication: 0.1,
            ..LinkConfig::with_delay(Duration::from_millis(10))
        };
        let mut plain = Link::new(config.clone(), seed);
        let mut held = HeldLink::new(Link::new(config, seed));
        let (mut now_ns, mut expected) = (0, Vec::new());
        for (number, gap) in gaps.iter().enumerate() {
            now_ns += gap;
            let packet = (number as u32).to_be_bytes();
            held.push(now_ns, packet.to_vec()).expect("nothing is lost");
            let Verdict::Delivered(copies) = plain.offer(now_ns, 4) else { unreachable!() };
            for copy in [Some(copies.first), copies.duplicate].into_iter().flatten() {
                expected.push((copy.arrival_ns, expected.len(), packet.to_vec()));
            }
        }
        expected.sort();
        for (arrival_ns, _, packet) in expected {
            prop_assert_eq!(held.next_arrival_ns(), Some(arrival_ns));
            prop_assert_eq!(held.poll(arrival_ns - 1), None);
            prop_assert_eq!(held.poll(arrival_ns), Some(packet));
        }
        prop_assert_eq!(held.on_their_way(), 0);
    }
}
