//! RFC 5681 section 4.3: losses in two successive windows, and the loss of a retransmission, lower the window twice.

use core::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use strandline_proto::congestion::Algorithm;
use strandline_sim::pair::Fate;
use strandline_wire::Tsn;

use super::*;

/// Loses one chunk `times` times in a row, and every tenth of the following ones once. Returns the window before, and
/// after `round_trips` round trips.
fn windows(congestion: Algorithm, times: u32, round_trips: u64) -> (u32, u32) {
    let mut pair =
        Pair::new(endpoint(|config| config.congestion = congestion), endpoint(|_| ()), link(ms(30), 100));
    let (a, b) = pair.connect();
    stream(&mut pair, a, b, ms(1500));
    let mut seen = BTreeMap::<u32, u32>::new();
    let first: Rc<RefCell<Option<Tsn>>> = Rc::default();
    pair.filter(move |from, packet| {
        let tsn = packet.chunks().flatten().find_map(|chunk| match chunk.parse() {
            Ok(Chunk::Data(data)) => Some(data.tsn),
            _ => None,
        });
        let Some(tsn) = tsn.filter(|_| from == Side::A) else { return Fate::Pass };
        let first = *first.borrow_mut().get_or_insert(tsn);
        if tsn.is_before(first) {
            return Fate::Pass;
        }
        let number = tsn.distance_from(first);
        let seen = seen.entry(number).or_default();
        *seen += 1;
        let losses = if number == 0 { times } else { u32::from(number % 10 == 0) };
        if *seen <= losses { Fate::Drop } else { Fate::Pass }
    });
    let before = pair.a.endpoint.paths(a).unwrap()[0].cwnd;
    // At 100 Mbit/s a window that also fills the queue takes longer than 60 ms.
    let round_trip = ms(60).max(ms(u64::from(before) / 12_500));
    stream(&mut pair, a, b, round_trip * round_trips as u32);
    let path = &pair.a.endpoint.paths(a).unwrap()[0];
    assert_eq!(pair.a.endpoint.status(a).unwrap().stats.timeouts, 0);
    (before, path.cwnd)
}

#[test]
fn repeatedly_lost_chunk_hides_no_losses() {
    for congestion in [Algorithm::Cubic, Algorithm::Rfc9260, Algorithm::Dctcp] {
        for times in [1, 5] {
            let (before, after) = windows(congestion, times, 7);
            assert!(after < before / 3, "{congestion:?}, lost {times} times: {after} of {before}");
        }
    }
}
