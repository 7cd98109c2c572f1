#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests stop at the first error")]

use std::sync::{Arc, Mutex};

use super::*;
use crate::memory::Network;
use crate::{Association, Listener, SendInfo, Stack};

/// The observations of packets: direction, TSNs with bytes, the SACK, and whether the association was known,
/// with its bytes in flight.
#[derive(Debug, Default)]
struct Seen(Mutex<Vec<Packets>>);

#[derive(Debug)]
struct Packets {
    direction: Direction,
    data: Vec<ObservedData>,
    sack: Option<ObservedSack>,
    flight: Option<u32>,
    again: Vec<Option<SentAgain>>,
}

impl PacketObserver for Seen {
    fn packet(&self, packet: &ObservedPacket<'_>) {
        let association = packet.association();
        let data: Vec<_> = packet.data().collect();
        self.0.lock().unwrap().push(Packets {
            direction: packet.direction,
            sack: packet.sack(),
            flight: association.and_then(|seen| Some(seen.paths().first()?.flight)),
            again: data.iter().map(|data| association?.sent_again(data.tsn)).collect(),
            data,
        });
    }
}

#[tokio::test(start_paused = true)]
async fn what_packets_carry_and_how_the_association_was() {
    let network = Network::new();
    let seen = Arc::new(Seen::default());
    let here =
        Stack::builder().observer(seen.clone()).memory(&network, ["10.0.0.1".parse().unwrap()]).unwrap();
    let there = Stack::builder().memory(&network, ["10.0.0.2".parse().unwrap()]).unwrap();
    let listener = Listener::bind(&there, 7).unwrap();
    let peer = crate::Peer::new([10, 0, 0, 2], 7);
    let association = Association::connect(&here, peer).await.unwrap();
    let _accepted = listener.accept().await.unwrap();
    association.send(&[1; 700], SendInfo::default()).await.unwrap();
    association.send(&[2; 300], SendInfo::on(StreamId(3))).await.unwrap();
    association.shutdown().await;

    let seen = seen.0.lock().unwrap();
    assert_eq!(
        seen.first().unwrap().flight,
        Some(0),
        "an INIT is of an association that has sent nothing yet"
    );
    let data: Vec<_> = seen.iter().flat_map(|packet| &packet.data).collect();
    let [first, second] = data[..] else { panic!("{data:?}") };
    assert_eq!((first.bytes, first.stream), (700, StreamId(0)));
    assert_eq!((second.bytes, second.stream, second.tsn), (300, StreamId(3), first.tsn + 1));
    let sent = seen.iter().find(|packet| !packet.data.is_empty()).unwrap();
    assert!(sent.direction == Direction::Sent && sent.flight.unwrap() >= 700, "{sent:?}");
    assert!(sent.again.iter().all(Option::is_none), "nothing was sent again: {sent:?}");
    let sack = seen.iter().filter_map(|packet| packet.sack.as_ref()).next_back().unwrap();
    assert_eq!((sack.cumulative, sack.gaps.len(), sack.duplicates), (second.tsn, 0, 0));
    assert!(sack.a_rwnd > 0);
}
