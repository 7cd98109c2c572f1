//! Pacing (decision 114): paths of 5 ms and more are paced, in batches of a millisecond and more, which a carrier can
//! hand to the kernel in one call (GSO).

use super::*;

/// Over any time, the bytes sent are at most what the rate yields plus the saved credit: 4 ms, or ten packets.
#[test]
fn sent_bytes_stay_within_rate_and_savings() {
    let mut pair = Pair::new(endpoint(|_| ()), endpoint(|_| ()), link(ms(30), 100));
    pair.segments_max = 64;
    let (a, b) = pair.connect();
    stream(&mut pair, a, b, ms(4000));
    let rate_before = pair.a.endpoint.paths(a).unwrap()[0].pacing_rate.unwrap();
    pair.clear_captured();
    stream(&mut pair, a, b, ms(500));
    let rate_after = pair.a.endpoint.paths(a).unwrap()[0].pacing_rate.unwrap();
    let rate = rate_before.max(rate_after) as f64 * 1.05;
    let sent: Vec<(Duration, f64)> = pair
        .captured()
        .iter()
        .filter(|captured| captured.from == Side::A)
        .map(|captured| {
            let bytes: usize = data(captured).iter().map(|data| 16 + data.payload.len()).sum();
            (captured.at.since(strandline_proto::time::Time::ZERO), bytes as f64)
        })
        .collect();
    assert!(sent.len() > 2000, "{}", sent.len());
    for span in [ms(1), ms(5), ms(20), ms(100)] {
        let (mut first, mut bytes) = (0, 0.0);
        for (at, size) in &sent {
            bytes += size;
            while *at - sent[first].0 > span {
                bytes -= sent[first].1;
                first += 1;
            }
            let most = rate * (span + ms(4)).as_secs_f64().max(0.0) + 10.0 * 1460.0;
            assert!(bytes <= most, "{bytes} bytes in {span:?}, {most} at most");
        }
    }
}

/// A batch is what one transmission contains. There are fewer batches than packets, and none is longer than its share
/// of a round trip.
#[test]
fn packets_go_in_batches() {
    let mut pair = Pair::new(endpoint(|_| ()), endpoint(|_| ()), link(ms(30), 100));
    pair.segments_max = 64;
    let (a, b) = pair.connect();
    stream(&mut pair, a, b, ms(4000));
    pair.clear_captured();
    stream(&mut pair, a, b, ms(500));
    let mut batches: Vec<usize> = Vec::new();
    let mut last = None;
    for captured in pair.captured().iter().filter(|c| c.from == Side::A && !data(c).is_empty()) {
        if last.replace(captured.at) == Some(captured.at) {
            *batches.last_mut().unwrap() += 1;
        } else {
            batches.push(1);
        }
    }
    let packets: usize = batches.iter().sum();
    // 100 Mbit/s are 8 packets per millisecond, and 4 ms can be saved up.
    assert!(batches.iter().all(|batch| *batch <= 45), "{batches:?}");
    assert!(packets as f64 / batches.len() as f64 >= 2.0, "{packets} packets in {} batches", batches.len());
}

/// A path of less than 5 ms is not paced: its window lasts less than a batch.
#[test]
fn short_paths_are_not_paced() {
    let short = LinkConfig { queue_bytes_max: 200_000, ..link(Duration::from_micros(500), 1000) };
    let mut pair = Pair::new(endpoint(|_| ()), endpoint(|_| ()), short);
    let (a, b) = pair.connect();
    stream(&mut pair, a, b, ms(500));
    assert_eq!(pair.a.endpoint.paths(a).unwrap()[0].pacing_rate, None);
}
