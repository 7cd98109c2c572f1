//! What may exceed cwnd, with made-up numbers; which associations are looked at.

use bytes::Bytes;
use strandline_proto::config::EndpointConfig;
use strandline_proto::event::SendInfo;
use strandline_proto::number::StreamId;

use super::*;
use crate::pair::{Pair, Side};

const MTU: u32 = 1500;

/// Checks two paths with a packet in flight each, a window of one, and `packets` packets of new data on each beyond
/// that. T3-rtx of both has expired.
fn two_rounds(packets: [u32; 2]) -> Result<(), Violation> {
    let config = EndpointConfig::default;
    let mut pair = Pair::new(config(), config(), strandline_netem::LinkConfig::default());
    let (a, _) = pair.connect();
    let endpoint = &pair.side(Side::A).endpoint;
    let (status, mut path) =
        (endpoint.status(a).expect("it stands"), endpoint.paths(a).expect("it stands")[0].clone());
    (path.cwnd, path.flight, path.mtu, path.timeouts, path.recovery_window) = (MTU, MTU, MTU as u16, 1, None);
    let mut was = [path.clone(), path];
    for (number, path) in was.iter_mut().enumerate() {
        path.address.set_ip([10, 0, 0, number as u8].into());
    }
    let mut paths = was.clone();
    for (path, packets) in paths.iter_mut().zip(packets) {
        path.flight += packets * MTU;
    }
    let mut before = Before::new(status, was.to_vec());
    for path in &paths {
        before.new_bytes.insert(path.address.ip(), 1);
    }
    (before.new_chunks, before.packet_max) = (packets.iter().sum(), MTU);
    let mut left = ByAddress::default();
    let asking = frto_packets(&mut left, &paths);
    assert!(asking.iter().all(|(_, packets)| *packets == FRTO_PACKETS) && asking.len() == 2);
    congestion(&before, &paths, 0, &mut left)?;
    assert!(
        frto_packets(&mut left, &paths).iter().all(|(_, packets)| *packets < FRTO_PACKETS),
        "once for a time-out"
    );
    Ok(())
}

/// Without another path each one tests for itself whether its time-out was spurious (RFC 5682).
#[test]
fn each_path_may_ask_with_two_packets() {
    two_rounds([2, 2]).expect("two each");
    for packets in [[3, 1], [1, 3], [3, 3]] {
        let Violation(text) = two_rounds(packets).expect_err("three on one");
        assert!(text.contains("beyond cwnd"), "{text}");
    }
}

/// One association, which is watched.
struct Watched {
    watch: Watch,
    pair: Pair,
    id: AssociationId,
}

impl Watched {
    /// An association that rests.
    fn resting() -> Self {
        let config = EndpointConfig::default;
        let mut pair = Pair::new(config(), config(), strandline_netem::LinkConfig::default());
        let (id, _) = pair.connect();
        let mut watched = Self { watch: Watch::default(), pair, id };
        assert!(!watched.is_looked_at(), "nothing has touched it");
        watched.watch.touch(id);
        watched.comes_to_rest();
        watched
    }

    /// Runs a round without packets. Returns true if the association was looked at.
    fn is_looked_at(&mut self) -> bool {
        let (now, endpoint) = (self.pair.now, &self.pair.side(Side::A).endpoint);
        let ids = core::iter::once(self.id);
        self.watch.before(endpoint, now, ids, Recovery::Rack).expect("nothing is wrong");
        let looked_at = !self.watch.round.is_empty();
        self.watch.after(endpoint, now, &AssociationConfig::default()).expect("nothing is wrong");
        looked_at
    }

    fn comes_to_rest(&mut self) {
        assert!(self.is_looked_at(), "something has touched it");
        let further = (0..3).filter(|_| self.is_looked_at()).count();
        assert!(further < 3, "it rests");
    }

    fn sends(&mut self) {
        let (now, endpoint) = (self.pair.now, &mut self.pair.side(Side::A).endpoint);
        let data = Bytes::from_static(b"data");
        endpoint.send(now, self.id, SendInfo::on(StreamId(0)), data).expect("there is room");
    }

    /// Returns the packet that the endpoint transmits next.
    fn next_packet(&mut self) -> Carried {
        let [source, ..] = self.pair.addresses(Side::A)[..] else { panic!("it has an address") };
        let (now, endpoint) = (self.pair.now, &mut self.pair.side(Side::A).endpoint);
        let mut buffer = [0; 2000];
        let transmit = endpoint.poll_transmit(now, &mut buffer, 1).expect("it has data to send");
        let bytes = Bytes::copy_from_slice(&buffer[..transmit.len]);
        Carried { source, destination: transmit.destination, bytes, fragment: None, ecn: 0 }
    }

    fn packet(&mut self, datagram: &Carried) -> Result<(), Violation> {
        self.watch.packet(self.pair.now, datagram, Recovery::Rack)
    }
}

#[test]
fn touched_association_is_checked_again() {
    let mut watched = Watched::resting();
    watched.watch.touch(watched.id);
    watched.comes_to_rest();
}

#[test]
fn association_that_may_be_touched_is_compared() {
    let mut watched = Watched::resting();
    watched.watch.touch_any();
    assert!(!watched.is_looked_at(), "nothing has changed");
    watched.sends();
    assert!(!watched.is_looked_at(), "nothing says so");
    watched.watch.touch_any();
    watched.comes_to_rest();
}

#[test]
fn association_is_looked_at_before_its_first_packet() {
    let mut watched = Watched::resting();
    watched.sends();
    watched.watch.touch_any();
    watched.comes_to_rest();
    let packet = watched.next_packet();
    watched.packet(&packet).expect("new data");
    assert_eq!(watched.watch.round, [watched.id]);
    let Violation(text) = watched.packet(&packet).expect_err("nothing is lost");
    assert!(text.contains("sent again for no reason"), "{text}");
    watched.comes_to_rest();
}
