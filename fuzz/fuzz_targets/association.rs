//! An established association fed with packets of the right tag whose chunks are the fuzzer's: nothing panics, every
//! call ends, and what is buffered stays within the limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strandline_proto::config::{AssociationConfig, EndpointConfig, ExtensionsConfig};
use strandline_proto::endpoint::{Connect, Endpoint};
use strandline_proto::event::{Datagram, SendInfo};
use strandline_proto::reconfiguration::PeerRequests;
use strandline_proto::stats::AssociationState;
use strandline_proto::time::Time;
use strandline_wire::PacketBuilder;
use strandline_wire::number::VerificationTag;

fuzz_target!(|packets: Vec<Vec<(u8, u8, Vec<u8>)>>| {
    let extensions =
        ExtensionsConfig { peer_requests: PeerRequests::ALL, nr_sack: true, ..ExtensionsConfig::default() };
    let association = AssociationConfig { extensions, ..AssociationConfig::default() };
    let config = EndpointConfig { association: association.into(), ..EndpointConfig::default() };
    let mut client = Endpoint::new(config, [1; 32], Time::ZERO).expect("the parameters are valid");
    let mut server =
        Endpoint::new(EndpointConfig::default(), [2; 32], Time::ZERO).expect("defaults are valid");
    server.listen(7).expect("a free port");
    let here = "192.0.2.1:9899".parse().expect("an address");
    let there = "192.0.2.2:9899".parse().expect("an address");
    let mut now = Time::ZERO;
    let id = client.connect(now, Connect::to(there, 7)).expect("a new association");
    let mut buffer = vec![0; 4096];
    for _ in 0..4 {
        while let Some(t) = client.poll_transmit(now, &mut buffer, 1) {
            server.handle_datagram(
                now,
                Datagram { source: here, destination: None, bytes: &buffer[..t.len], ecn: 0 },
            );
        }
        while let Some(t) = server.poll_transmit(now, &mut buffer, 1) {
            client.handle_datagram(
                now,
                Datagram { source: there, destination: None, bytes: &buffer[..t.len], ecn: 0 },
            );
        }
    }
    let _ = client.send(now, id, SendInfo::default(), vec![0; 9000].into());
    let Some(status) = client.status(id) else { return };
    let mut raw = vec![0; 65_536];
    for chunks in packets.into_iter().take(64) {
        now += std::time::Duration::from_millis(50);
        let tag = VerificationTag(status.local_tag.0);
        let mut packet = PacketBuilder::new(&mut raw, status.peer_port, status.local_port, tag);
        for (kind, flags, value) in chunks.iter().take(32) {
            if let Some(place) = packet.push_raw(*kind, *flags, value.len()) {
                place.copy_from_slice(value);
            }
        }
        let len = packet.finish();
        client
            .handle_datagram(now, Datagram { source: there, destination: None, bytes: &raw[..len], ecn: 0 });
        client.handle_timeout(now);
        let mut rounds = 0;
        while client.poll_transmit(now, &mut buffer, 1).is_some() {
            rounds += 1;
            assert!(rounds < 10_000, "poll_transmit does not end");
        }
        while client.poll_event().is_some() {}
        // After the end what has arrived can still be read, and there is no buffer for more.
        if let Some(status) = client.status(id).filter(|status| status.state != AssociationState::Closed) {
            assert!(status.receive_buffered <= 2 * status.receive_buffer);
        }
        while client.recv(now, id).is_some() {}
    }
});
