//! A listener fed with COOKIE ECHO chunks of any content, and with altered copies of a cookie that it sealed itself:
//! no association but from an unaltered cookie.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strandline_proto::config::EndpointConfig;
use strandline_proto::endpoint::Endpoint;
use strandline_proto::event::Datagram;
use strandline_proto::time::Time;
use strandline_wire::chunk::{Chunk, CookieEcho, Init};
use strandline_wire::number::{Tsn, VerificationTag};
use strandline_wire::parameter::{Parameter, Parameters};
use strandline_wire::{Packet, PacketBuilder};

fuzz_target!(|input: (u16, u8, Vec<u8>)| {
    let (at, flip, extra) = input;
    let source = "192.0.2.1:9899".parse().expect("an address");
    let mut server =
        Endpoint::new(EndpointConfig::default(), [3; 32], Time::ZERO).expect("defaults are valid");
    server.listen(7).expect("a free port");
    let mut buffer = vec![0; 65_536];
    let init = Init {
        initiate_tag: VerificationTag(9),
        a_rwnd: 65_536,
        outbound_streams: 4,
        inbound_streams: 4,
        initial_tsn: Tsn(1),
        parameters: Parameters::new(&[]),
    };
    let mut packet = PacketBuilder::new(&mut buffer, 5, 7, VerificationTag(0));
    assert!(packet.push(&init));
    let len = packet.finish();
    server.handle_datagram(Time::ZERO, Datagram { source, destination: None, bytes: &buffer[..len], ecn: 0 });
    let mut answer = vec![0; 2048];
    let sent = server.poll_transmit(Time::ZERO, &mut answer, 1).expect("INIT ACK");
    let ack = Packet::parse(&answer[..sent.len]).expect("our own packet");
    let Some(Ok(Ok(Chunk::InitAck(ack)))) = ack.chunks().next().map(|raw| raw.map(|raw| raw.parse())) else {
        panic!("no INIT ACK")
    };
    let cookie = ack.parameters.iter().flatten().find_map(|raw| match raw.parse() {
        Ok(Parameter::StateCookie(cookie)) => Some(cookie.to_vec()),
        _ => None,
    });
    let original = cookie.expect("a cookie");
    let mut cookie = original.clone();
    let place = usize::from(at) % cookie.len();
    cookie[place] ^= flip;
    cookie.extend_from_slice(&extra[..extra.len().min(512)]);
    let mut packet = PacketBuilder::new(&mut buffer, 5, 7, ack.initiate_tag);
    if !packet.push(&CookieEcho { cookie: &cookie }) {
        return;
    }
    let len = packet.finish();
    server.handle_datagram(Time::ZERO, Datagram { source, destination: None, bytes: &buffer[..len], ecn: 0 });
    assert_eq!(server.association_count(), usize::from(cookie == original));
});
