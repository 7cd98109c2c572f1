//! Credit for each stream (docs/stream-credit.md): what a reader that stops costs the other streams, and what it holds.

use std::collections::BTreeMap;

use strandline_proto::config::{StreamCredit, StreamScheduler};
use strandline_proto::endpoint::StreamCredits;
use strandline_proto::number::StreamId;

use super::*;

const STREAMS: u16 = 100;
const CREDIT: u32 = 64 << 10;

/// Two endpoints with credit, 100 Mbit/s and 20 ms. The receiving application reports what it reads.
fn pair() -> (Pair, AssociationId, AssociationId) {
    let config = |association: &mut AssociationConfig| {
        association.extensions.interleaving = true;
        association.extensions.stream_credit = Some(StreamCredit::new(CREDIT, 1 << 20));
        association.stream_scheduler = StreamScheduler::RoundRobin;
        association.outbound_streams = STREAMS;
    };
    let mut pair = Pair::new(endpoint(config), endpoint(config), link(ms(10), 100));
    let (a, b) = pair.connect();
    StreamCredits::of(&mut pair.b.endpoint, b).report_reads();
    (pair, a, b)
}

/// Sends on all streams for 10 seconds, while the first one is read from or not. Returns the bytes that
/// arrived on each.
fn transfer(stalls: bool) -> BTreeMap<u16, usize> {
    let (mut pair, a, b) = pair();
    let mut arrived = BTreeMap::new();
    pair.run_until(ms(10_000), |pair| {
        let mut takes = true;
        while takes {
            takes = false;
            for stream in 0..STREAMS {
                let info = SendInfo::on(StreamId(stream));
                takes |= pair.a.endpoint.send(pair.now, a, info, vec![1; 1400].into()).is_ok();
            }
        }
        while let Some(message) = pair.recv(Side::B, b) {
            let (stream, len) = (message.stream, message.data.len());
            *arrived.entry(stream.0).or_default() += len;
            if stream.0 > 0 || !stalls {
                StreamCredits::of(&mut pair.b.endpoint, b).read(pair.now, stream, len);
            }
        }
        false
    });
    arrived
}

#[test]
fn stalled_reader_costs_the_others_nothing() {
    let others = |arrived: &BTreeMap<u16, usize>| arrived.range(1..).map(|(_, len)| len).sum::<usize>();
    let (with, without) = (transfer(true), transfer(false));
    let share = others(&with) as f64 / others(&without) as f64;
    // The link's capacity of the stalled stream goes to the others.
    assert!((1.0..1.02).contains(&share), "{share}");
    assert!(others(&without) > 100_000_000, "{}", others(&without));
    let held = with[&0];
    assert!((CREDIT as usize - 1500..=CREDIT as usize).contains(&held), "{held}");
}
