//! RFC 9937, proportional rate reduction: in recovery as much is sent, in proportion to what arrives, as the window that the loss
//! leaves is to what was in flight; without a pause, and without a burst at its end.

use super::*;
use strandline_sim::pair::with_chunk;

#[test]
fn seven_tenths_of_what_arrives_goes_without_pause_or_burst() {
    let mut pair = Pair::new(endpoint(|_| ()), endpoint(|_| ()), link(ms(30), 20));
    let (a, b) = pair.connect();
    stream(&mut pair, a, b, ms(6000));
    // A loss that no queue made: how much is under way now is what matters.
    let lost_before = pair.a.endpoint.status(a).unwrap().stats.retransmissions;
    pair.drop_next(Side::A, with_chunk(kind::DATA));
    pair.clear_captured();
    stream(&mut pair, a, b, ms(400));
    assert_eq!(pair.a.endpoint.status(a).unwrap().stats.retransmissions - lost_before, 1);
    let lost = pair.captured().iter().find(|captured| !captured.delivered).expect("dropped").clone();
    let tsn = data(&lost)[0].tsn;
    let of_a = || pair.captured().iter().filter(|captured| captured.from == Side::A);
    let again = of_a().filter(|captured| data(captured).iter().any(|data| data.tsn == tsn)).nth(1);
    let began = again.expect("it is sent again").at;
    // The recovery lasts until what was sent before it is acknowledged: the round trip, queue included.
    let round_trip = began.since(lost.at);
    let between = |captured: &&Captured, from, to| captured.at >= from && captured.at < to;
    let count = |side, from, to| {
        let all = pair.captured().iter().filter(|captured| captured.from == side);
        all.filter(|captured| between(captured, from, to))
            .filter(|captured| side == Side::B || !data(captured).is_empty())
            .count()
    };
    let end = began + round_trip;
    let (sent, before) = (count(Side::A, began, end), count(Side::A, lost.at, began));
    let share = sent as f64 / before as f64;
    assert!((0.6..0.82).contains(&share), "{sent} packets after {before}: {share}");
    let mut moments: Vec<_> = of_a().filter(|c| between(c, began, end)).map(|captured| captured.at).collect();
    let pause = moments.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap();
    assert!(pause < round_trip / 8, "a pause of {pause:?} in {round_trip:?}");
    moments.dedup();
    assert!(moments.len() > sent / 4, "{sent} packets at {} moments", moments.len());
    // No burst when it is over.
    let after = count(Side::A, end, end + round_trip / 8);
    assert!(after <= sent / 8 * 2 + 10, "{after} in an eighth of a round trip after {sent} in a whole one");
}
