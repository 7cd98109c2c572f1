//! RFC 5061: dynamic address reconfiguration, with the attacks of RFC 5062.

mod attacks;
mod crossing;
mod negotiation;
mod old_cookies;
mod receiver;
mod sender;
mod unconfirmed;

use strandline_wire::TlvWriter;
use strandline_wire::cause::{Causes, code};
use strandline_wire::chunk::{Asconf, AsconfAck, Chunk};
use strandline_wire::number::{AsconfNumber, Tsn};
use strandline_wire::parameter::asconf::AsconfParameter;
use strandline_wire::parameter::{HmacIdentifiers, Parameter, Parameters};

use super::raw::*;
use super::*;
use crate::config::ExtensionsConfig;
use crate::dynamic_addresses::{AddressOutcome, AddressRequest};
use crate::error::AddressError;
use crate::event::PathChange;
use crate::stats::Reachability;

fn with_dynamic_addresses(paths: u8, host: usize) -> EndpointConfig {
    let extensions = ExtensionsConfig { dynamic_addresses: true, ..ExtensionsConfig::default() };
    let association = Arc::new(AssociationConfig { extensions, ..AssociationConfig::default() });
    EndpointConfig { association, ..config(paths, host) }
}

/// Two endpoints with dynamic addresses and one address each, and an association between them.
fn established() -> (Pair, AssociationId, AssociationId) {
    Pair::with(with_dynamic_addresses(1, CLIENT), with_dynamic_addresses(1, SERVER)).establish()
}

/// An address of a host that is in no INIT: in the subnet of its first one.
fn new_address(host: usize, number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 50 + number + 100 * host as u8], 9899))
}

/// Gives a host an address.
fn gain(pair: &mut Pair, host: usize, address: SocketAddr) {
    pair.hosts[host].addresses.push(address);
}

/// Takes an address from a host.
fn lose(pair: &mut Pair, host: usize, address: SocketAddr) {
    pair.hosts[host].addresses.retain(|own| *own != address);
}

fn request(
    pair: &mut Pair,
    host: usize,
    id: AssociationId,
    requests: &[AddressRequest],
) -> Result<(), AddressError> {
    let now = pair.now;
    pair.hosts[host].endpoint.addresses(id).request(now, requests)
}

/// Returns what became of the requests of a host.
fn outcomes(pair: &Pair, host: usize) -> Vec<(AddressRequest, AddressOutcome)> {
    let events = pair.hosts[host].events.iter();
    let of = |(_, event): &(AssociationId, Event)| match event {
        Event::AddressRequest { request, outcome } => Some((*request, *outcome)),
        _ => None,
    };
    events.filter_map(of).collect()
}

/// Returns the changes of a host's paths.
fn changes(pair: &Pair, host: usize) -> Vec<(SocketAddr, PathChange)> {
    let of = |(_, event): &(AssociationId, Event)| match event {
        Event::PathChanged { address, change } => Some((*address, *change)),
        _ => None,
    };
    pair.hosts[host].events.iter().filter_map(of).collect()
}

/// Returns the addresses of the peer that a host knows, with their states.
fn paths(pair: &Pair, host: usize, id: AssociationId) -> Vec<(SocketAddr, Reachability)> {
    let paths = pair.hosts[host].endpoint.paths(id).unwrap();
    paths.iter().map(|path| (path.address, path.state)).collect()
}

/// A hand-made peer at the client's first address that has agreed on dynamic addresses with the server.
struct Peer {
    inner: conformance_rfc4895::Peer,
    /// Number of its next ASCONF.
    number: u32,
}

const EXTENSIONS: [u8; 3] = [kind::AUTH, kind::ASCONF, kind::ASCONF_ACK];

/// Encodes requests or responses.
fn encode(parameters: &[AsconfParameter<'_>]) -> Vec<u8> {
    let mut buffer = vec![0; 1400];
    let mut writer = TlvWriter::new(&mut buffer);
    assert!(parameters.iter().all(|parameter| writer.push(parameter)));
    writer.finish().to_vec()
}

fn add(id: u32, address: SocketAddr) -> AsconfParameter<'static> {
    AsconfParameter::AddIp { id, address: address.ip() }
}

fn delete(id: u32, address: SocketAddr) -> AsconfParameter<'static> {
    AsconfParameter::DeleteIp { id, address: address.ip() }
}

fn set_primary(id: u32, address: SocketAddr) -> AsconfParameter<'static> {
    AsconfParameter::SetPrimary { id, address: address.ip() }
}

/// The unspecified address.
fn wildcard() -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], 0))
}

impl Peer {
    /// A peer of a server with this number of addresses.
    fn new(addresses: u8) -> Self {
        Self::of(Pair::with(config(1, CLIENT), with_dynamic_addresses(addresses, SERVER)))
    }

    fn of(pair: Pair) -> Self {
        let more = [Parameter::SupportedExtensions(&EXTENSIONS)];
        let chunks = [kind::ASCONF, kind::ASCONF_ACK];
        let inner = conformance_rfc4895::Peer::open_with(pair, &chunks, HmacIdentifiers::SHA1, &more);
        Self { inner, number: 1000 }
    }

    fn pair(&mut self) -> &mut Pair {
        &mut self.inner.raw.pair
    }

    fn id(&self) -> AssociationId {
        self.inner.raw.server
    }

    /// Returns AUTH and an ASCONF with these parameters as bytes.
    fn asconf_of(&self, number: u32, address: SocketAddr, parameters: &[u8]) -> Vec<u8> {
        let parameters = Parameters::new(parameters);
        let asconf = Asconf { number: AsconfNumber(number), address: address.ip(), parameters };
        self.inner.behind_auth(&[&asconf])
    }

    /// Sends the next ASCONF from an address. Returns what the server sends.
    fn ask_from(&mut self, source: SocketAddr, requests: &[AsconfParameter<'_>]) -> Vec<Sent> {
        let bytes = self.asconf_of(self.number, address(CLIENT, 0), &encode(requests));
        self.number = self.number.wrapping_add(1);
        self.say_from(source, &bytes)
    }

    /// Sends the next ASCONF from its first address. Returns the cause codes of the refused requests by their
    /// correlation IDs.
    fn ask(&mut self, requests: &[AsconfParameter<'_>]) -> Vec<(u32, u16)> {
        let number = self.number;
        let sent = self.ask_from(address(CLIENT, 0), requests);
        refused(&sent, number)
    }

    /// Sends a packet whose chunks are these bytes from an address. Returns what the server sends.
    fn say_from(&mut self, source: SocketAddr, chunks: &[u8]) -> Vec<Sent> {
        let bytes = packet_of((RAW_PORT, PORT), self.inner.raw.tag, chunks);
        let sent = Sent { source, destination: address(SERVER, 0), bytes, fragment: false };
        self.pair().deliver(&sent);
        self.inner.raw.heard()
    }

    /// Answers the latest HEARTBEAT to an address from there.
    fn confirm(&mut self, from: SocketAddr) {
        self.inner.raw.wait(Duration::from_secs(1));
        let heartbeat =
            self.pair().log.iter().rfind(|sent| has(kind::HEARTBEAT)(sent) && sent.destination == from);
        let heartbeat = heartbeat.expect("a HEARTBEAT").clone();
        let Some(Chunk::Heartbeat(heartbeat)) = chunks(&heartbeat).into_iter().next() else { panic!("none") };
        let ack = strandline_wire::HeartbeatAck(heartbeat);
        let bytes = self.inner.bytes_of(&[&ack]);
        self.say_from(from, &bytes);
    }

    /// Returns the addresses that the server knows.
    fn known(&self) -> Vec<SocketAddr> {
        paths(&self.inner.raw.pair, SERVER, self.id()).into_iter().map(|(address, _)| address).collect()
    }

    fn state(&self) -> &'static str {
        self.inner.raw.state()
    }
}

/// Returns the responses of the ASCONF-ACK with a number, which must be among these packets.
#[track_caller]
fn responses(sent: &[Sent], number: u32) -> Vec<u8> {
    let acks = sent.iter().flat_map(chunks).filter_map(|chunk| match chunk {
        Chunk::AsconfAck(ack) if ack.number == AsconfNumber(number) => {
            Some(ack.responses.as_bytes().to_vec())
        }
        _ => None,
    });
    let mut acks: Vec<_> = acks.collect();
    assert_eq!(acks.len(), 1, "{:?}", sent.iter().map(Sent::kinds).collect::<Vec<_>>());
    acks.remove(0)
}

/// Returns the cause codes of refused requests by their correlation IDs.
#[track_caller]
fn refused(sent: &[Sent], number: u32) -> Vec<(u32, u16)> {
    let bytes = responses(sent, number);
    let parsed = Parameters::new(&bytes).iter().map(|raw| raw.unwrap().parse_asconf().unwrap().unwrap());
    let code = |causes: &[u8]| Causes::new(causes).iter().next().unwrap().unwrap().code;
    parsed
        .filter_map(|response| match response {
            AsconfParameter::Error { id, causes } => Some((id, code(causes))),
            AsconfParameter::Success { .. } => None,
            other => panic!("{other:?}"),
        })
        .collect()
}
