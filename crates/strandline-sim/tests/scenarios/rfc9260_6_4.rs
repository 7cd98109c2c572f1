//! RFC 9260 section 6.4 and decision 35: what is sent again stays on its path the first time; what is lost there twice takes
//! another one.

use core::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use strandline_sim::pair::Fate;
use strandline_wire::Tsn;

use super::rfc7829_3::TwoPaths;
use super::*;

/// Two paths of 20 ms; one chunk of those sent from now on is lost so many times. Where its transmissions went, by the number
/// of the path.
fn ways_of_a_chunk(losses: usize, change: impl Fn(&mut AssociationConfig)) -> (Vec<usize>, u32) {
    let mut paths = TwoPaths::new([link(ms(10), 50), link(ms(10), 50)], change);
    paths.run(ms(1000), 100_000);
    paths.pair.clear_captured();
    let unlucky: Rc<RefCell<Option<Tsn>>> = Rc::default();
    let (chosen, mut left) = (Rc::clone(&unlucky), losses);
    paths.pair.filter(move |from, packet| {
        for chunk in packet.chunks().flatten() {
            if let Ok(Chunk::Data(data)) = chunk.parse()
                && from == Side::A
                && left > 0
                && *chosen.borrow_mut().get_or_insert(data.tsn) == data.tsn
            {
                left -= 1;
                return Fate::Drop;
            }
        }
        Fate::Pass
    });
    let timeouts = |paths: &TwoPaths| paths.pair.a.endpoint.status(paths.a).unwrap().stats.timeouts;
    let before = timeouts(&paths);
    paths.run(ms(3000), 100_000);
    let addresses: BTreeMap<_, _> = paths
        .pair
        .addresses(Side::B)
        .iter()
        .enumerate()
        .map(|(path, address)| (address.ip(), path))
        .collect();
    let tsn = unlucky.borrow().unwrap();
    let carries =
        |captured: &&Captured| captured.from == Side::A && data(captured).iter().any(|data| data.tsn == tsn);
    let sent = paths.pair.captured().iter().filter(carries);
    (sent.map(|captured| addresses[&captured.datagram.destination.ip()]).collect(), timeouts(&paths) - before)
}

#[test]
fn the_first_retransmission_stays_on_its_path() {
    assert_eq!(ways_of_a_chunk(1, |_| ()), (vec![0, 0], 0));
}

#[test]
fn what_is_lost_twice_takes_another_path() {
    assert_eq!(ways_of_a_chunk(2, |_| ()), (vec![0, 0, 1], 0));
}

/// RFC 9260 alone: three miss indications once, and then T3-rtx, after which another path is better (section 6.4.1).
#[test]
fn by_rfc_9260_only_a_time_out_changes_the_path() {
    let pure = |config: &mut AssociationConfig| {
        *config =
            AssociationConfig { path_mtu_initial: 1500, path_mtu_max: 1500, ..AssociationConfig::rfc9260() };
    };
    assert_eq!(ways_of_a_chunk(1, pure), (vec![0, 0], 0));
    assert_eq!(ways_of_a_chunk(2, pure), (vec![0, 0, 1], 1));
}
