//! Procedures of extensions in the middle of a transfer in both directions, with 3 % loss: nothing is lost, doubled or
//! out of order, and the transfer goes on.

use core::net::IpAddr;
use std::collections::BTreeSet;

use strandline_netem::Loss;
use strandline_proto::authentication::{Authentication, AuthenticationEvent, KeyId, SharedKey};
use strandline_proto::dynamic_addresses::{AddressOutcome, AddressRequest};
use strandline_proto::endpoint::{KeyChange, Reconfigure};
use strandline_proto::event::Event;
use strandline_proto::number::StreamId;
use strandline_proto::reconfiguration::{Outcome, PeerRequests, StreamDirection, Streams};

use super::*;

/// A transfer of numbered messages in both directions.
struct Transfer {
    pair: Pair,
    ids: [AssociationId; 2],
    /// For each side the number of messages sent and received on each of two streams.
    sent: [[u64; 2]; 2],
    received: [[u64; 2]; 2],
}

const SIDES: [Side; 2] = [Side::A, Side::B];

impl Transfer {
    /// Sets up an association over 20 Mbit/s and 20 ms with 3 % loss, and transfers data for two seconds.
    fn begin(change: impl Fn(&mut AssociationConfig)) -> Self {
        let config = |association: &mut AssociationConfig| {
            association.send_buffer = Some(200_000);
            change(association);
        };
        let lossy = link(ms(10), 20).loss(Loss::Random(0.03));
        let mut pair = Pair::new(endpoint(config), endpoint(config), lossy);
        let ids = pair.connect().into();
        let mut transfer = Self { pair, ids, sent: [[0; 2]; 2], received: [[0; 2]; 2] };
        transfer.go_on(ms(2000));
        transfer
    }

    /// Goes on for `time`. Both sides send as much as they may, and check the order of what they receive.
    fn go_on(&mut self, time: Duration) {
        self.go_on_until(time, |_| false);
    }

    /// As `go_on`, until `done`. Returns whether it was.
    fn go_on_until(&mut self, time: Duration, mut done: impl FnMut(&mut Pair) -> bool) -> bool {
        let Self { pair, ids, sent, received } = self;
        pair.run_until(time, |pair| {
            for side in [0, 1] {
                while let Some(message) = pair.recv(SIDES[side], ids[side]) {
                    let stream = usize::from(message.stream.0);
                    let number = u64::from_be_bytes(message.data[..8].try_into().unwrap());
                    assert_eq!(number, received[side][stream], "{:?}, stream {stream}", SIDES[side]);
                    received[side][stream] += 1;
                }
                loop {
                    let stream = usize::from(sent[side][0] > sent[side][1]);
                    let mut data = vec![7; FULL];
                    data[..8].copy_from_slice(&sent[side][stream].to_be_bytes());
                    let (now, info) = (pair.now, SendInfo::on(StreamId(stream as u16)));
                    if pair.side(SIDES[side]).endpoint.send(now, ids[side], info, data.into()).is_err() {
                        break;
                    }
                    sent[side][stream] += 1;
                }
            }
            done(pair)
        })
    }

    /// Goes on for `time` and returns how many messages each side received in it.
    fn messages_in(&mut self, time: Duration) -> [u64; 2] {
        let count = |received: &[[u64; 2]; 2]| received.map(|streams| streams[0] + streams[1]);
        let before = count(&self.received);
        self.go_on(time);
        let after = count(&self.received);
        [after[0] - before[0], after[1] - before[1]]
    }

    fn ask(&mut self, side: Side, request: Reconfigure) {
        let (now, id) = (self.pair.now, self.ids[usize::from(side == Side::B)]);
        request.ask(&mut self.pair.side(side).endpoint, now, id).unwrap();
    }
}

/// RFC 6951 section 5.4: the peer's NAT takes another port, and later another one.
#[test]
fn rebound_port_is_followed() {
    let mut transfer = Transfer::begin(|_| ());
    for port in [40_001, 40_002] {
        transfer.pair.rebind(Side::A, port);
        transfer.go_on(ms(1000));
        let remote = transfer.pair.b.endpoint.paths(transfer.ids[1]).unwrap()[0].address;
        assert_eq!(remote.port(), port);
        let [a, b] = transfer.messages_in(ms(2000));
        assert!(a > 200 && b > 200, "{a} and {b} messages in two seconds");
    }
    let stats = SIDES.map(|side| {
        let id = transfer.ids[usize::from(side == Side::B)];
        transfer.pair.side(side).endpoint.status(id).unwrap().stats
    });
    assert!(stats.iter().all(|stats| stats.timeouts < 10), "{stats:?}");
}

/// RFC 5061 section 5.3: a host gets another address in place of its only one.
#[test]
fn only_address_is_replaced() {
    let mut transfer = Transfer::begin(|config| config.extensions.dynamic_addresses = true);
    let [old, new] = [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])];
    transfer.pair.readdress(Side::A, vec![old, new]);
    let (now, id) = (transfer.pair.now, transfer.ids[0]);
    let requests = [AddressRequest::Add(new), AddressRequest::SetPrimary(new), AddressRequest::Delete(old)];
    transfer.pair.a.endpoint.addresses(id).request(now, &requests).unwrap();
    let mut performed = 0;
    let done = transfer.go_on_until(ms(10_000), |pair| {
        for event in pair.events(Side::A) {
            if let Event::AddressRequest { outcome, request } = event {
                assert_eq!(outcome, AddressOutcome::Performed, "{request:?}");
                performed += 1;
            }
        }
        performed == requests.len()
    });
    assert!(done, "{performed} requests were answered");
    transfer.pair.readdress(Side::A, vec![new]);
    let [a, b] = transfer.messages_in(ms(2000));
    assert!(a > 200 && b > 200, "{a} and {b} messages in two seconds");
    let paths = transfer.pair.b.endpoint.paths(transfer.ids[1]).unwrap();
    let remotes: Vec<_> = paths.iter().map(|path| path.address.ip()).collect();
    assert_eq!(remotes, [new]);
}

/// RFC 6525 section 5.2: both sides reset one of two streams that they send on again and again.
#[test]
fn streams_are_reset_and_lose_nothing() {
    let mut transfer = Transfer::begin(|config| config.extensions.peer_requests = PeerRequests::ALL);
    for _ in 0..10 {
        for side in SIDES {
            transfer.ask(
                side,
                Reconfigure::ResetStreams(StreamDirection::Outgoing, Streams::Listed(vec![StreamId(1)])),
            );
        }
        let mut performed = 0;
        let done = transfer.go_on_until(ms(20_000), |pair| {
            let events = SIDES.map(|side| pair.events(side)).concat();
            for event in &events {
                if let Event::StreamsReset { direction, outcome, .. } = event {
                    assert_eq!(*outcome, Outcome::Performed, "{direction:?}");
                    performed += 1;
                }
            }
            performed == 4
        });
        assert!(done, "{performed} of 4 reports");
    }
    let [a, b] = transfer.messages_in(ms(2000));
    assert!(a > 200 && b > 200, "{a} and {b} messages in two seconds");
    let ssns_of = |side: Side| {
        let of_side = transfer.pair.captured().iter().filter(move |captured| captured.from == side);
        of_side.flat_map(data).filter(|data| data.stream == StreamId(1)).map(|data| (data.tsn.0, data.ssn.0))
    };
    for side in SIDES {
        let begins: BTreeSet<_> = ssns_of(side).filter(|(_, ssn)| *ssn == 0).collect();
        assert_eq!(begins.len(), 11, "its numbers begin anew with each reset");
    }
}

/// RFC 4895 section 6.2 with RFC 6458 section 8.1.18: both sides change the shared key, one after the other.
#[test]
fn shared_key_changes_without_a_pause() {
    let chunks = [kind::DATA, kind::SACK].into_iter().collect();
    let settings = Authentication { chunks, ..Authentication::default() };
    let mut transfer = Transfer::begin(|config| config.extensions.authentication = Some(settings));
    for number in 1..6 {
        let (key, secret) = (KeyId(number), SharedKey::new(&[number as u8; 20]));
        for (side, id) in SIDES.into_iter().zip(transfer.ids) {
            KeyChange::Set(key, secret.clone()).apply(&mut transfer.pair.side(side).endpoint, id).unwrap();
        }
        for (side, id) in SIDES.into_iter().zip(transfer.ids) {
            KeyChange::Activate(key).apply(&mut transfer.pair.side(side).endpoint, id).unwrap();
            KeyChange::Deactivate(KeyId(number - 1))
                .apply(&mut transfer.pair.side(side).endpoint, id)
                .unwrap();
            transfer.go_on(ms(300));
        }
        let freed = |event: &Event| matches!(event, Event::Authentication(AuthenticationEvent::FreeKey(_)));
        for (side, id) in SIDES.into_iter().zip(transfer.ids) {
            assert_eq!(transfer.pair.events(side).iter().filter(|event| freed(event)).count(), 1);
            KeyChange::Delete(KeyId(number - 1)).apply(&mut transfer.pair.side(side).endpoint, id).unwrap();
        }
        let [a, b] = transfer.messages_in(ms(1000));
        assert!(a > 100 && b > 100, "{a} and {b} messages in a second with key {number}");
    }
}
