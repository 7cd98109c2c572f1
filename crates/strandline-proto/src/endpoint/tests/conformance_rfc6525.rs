//! RFC 6525: reconfiguration of streams.

mod answers;
mod both;
mod dynamic;
mod overtaking;
mod requests;

use strandline_wire::chunk::ReConfig;
use strandline_wire::number::{RequestNumber, Ssn, Tsn};
use strandline_wire::parameter::Parameters;
use strandline_wire::parameter::re_config::{
    AddIncomingStreams, AddOutgoingStreams, IncomingSsnReset, NextTsns, OutgoingSsnReset, ReConfigParameter,
    Response, ResultCode, SsnTsnReset, StreamList,
};
use strandline_wire::{Data, Init, TlvWriter, print};

use super::super::Reconfigure;
use super::raw::*;
use super::*;
use crate::error::ReconfigureError;
use crate::reconfiguration::{Outcome, PeerRequests, StreamDirection, Streams};

/// The requests as methods.
trait Asks {
    fn reconfigure(
        &mut self,
        now: Time,
        id: AssociationId,
        request: Reconfigure,
    ) -> Result<(), ReconfigureError>;

    fn reset_streams(
        &mut self,
        now: Time,
        id: AssociationId,
        direction: StreamDirection,
        streams: Streams,
    ) -> Result<(), ReconfigureError> {
        self.reconfigure(now, id, Reconfigure::ResetStreams(direction, streams))
    }

    fn reset_association(&mut self, now: Time, id: AssociationId) -> Result<(), ReconfigureError> {
        self.reconfigure(now, id, Reconfigure::ResetAssociation)
    }

    fn add_streams(
        &mut self,
        now: Time,
        id: AssociationId,
        outgoing: u16,
        incoming: u16,
    ) -> Result<(), ReconfigureError> {
        self.reconfigure(now, id, Reconfigure::AddStreams { outgoing, incoming })
    }
}

impl Asks for Endpoint {
    fn reconfigure(
        &mut self,
        now: Time,
        id: AssociationId,
        request: Reconfigure,
    ) -> Result<(), ReconfigureError> {
        request.ask(self, now, id)
    }
}

/// Supported Extensions with RE-CONFIG.
const SUPPORTED: [u8; 5] = [0x80, 0x08, 0, 5, 130];

/// A peer that supports the extension, and a server that performs every request.
fn open() -> Raw {
    open_with(PeerRequests::ALL)
}

/// A server that performs these requests.
fn open_with(peer_requests: PeerRequests) -> Raw {
    open_as(|config| config.extensions.peer_requests = peer_requests)
}

fn open_as(change: impl Fn(&mut AssociationConfig)) -> Raw {
    let pair = Pair::configured(|config| {
        config.heartbeat_interval = None;
        change(config);
    });
    Raw::open(pair, Init { parameters: Parameters::new(&SUPPORTED), ..init(Tsn(1000)) })
}

fn encode(parameters: &[ReConfigParameter<'_>]) -> Vec<u8> {
    let mut buffer = [0; 1000];
    let mut writer = TlvWriter::new(&mut buffer);
    assert!(parameters.iter().all(|parameter| writer.push(parameter)));
    writer.finish().to_vec()
}

impl Raw {
    /// Sends a RE-CONFIG chunk to the server. Returns what the server sends.
    pub(super) fn re_config(&mut self, parameters: &[ReConfigParameter<'_>]) -> Vec<Sent> {
        let bytes = encode(parameters);
        self.say(|packet| assert!(packet.push(&ReConfig { parameters: Parameters::new(&bytes) })))
    }

    /// Sends a RE-CONFIG chunk to the server. Returns the RE-CONFIG chunks that it sends.
    fn ask(&mut self, parameters: &[ReConfigParameter<'_>]) -> Vec<String> {
        re_configs(&self.re_config(parameters))
    }
}

/// Returns the parameters of the RE-CONFIG chunks in these packets, as text.
fn re_configs(packets: &[Sent]) -> Vec<String> {
    let lines = packets.iter().map(|sent| print::line(&sent.bytes).to_string());
    let chunks = lines.flat_map(|line| line.split("; ").map(str::to_owned).collect::<Vec<_>>());
    let found = chunks.filter_map(|chunk| Some(chunk[chunk.find("RE-CONFIG")? + 10..].to_owned()));
    found.collect()
}

fn responds(number: u32, result: &str) -> Vec<String> {
    vec![format!("[Re-configuration Response {number} {result}]")]
}

/// The peer's reset of its outgoing streams: request `number`, last TSN.
pub(super) fn outgoing(number: u32, last_tsn: Tsn, streams: &[u8]) -> ReConfigParameter<'_> {
    ReConfigParameter::OutgoingSsnReset(OutgoingSsnReset {
        request: RequestNumber(number),
        response: RequestNumber(0),
        last_tsn,
        streams: StreamList::new(streams),
    })
}

fn incoming(number: u32, streams: &[u8]) -> ReConfigParameter<'_> {
    let (request, streams) = (RequestNumber(number), StreamList::new(streams));
    ReConfigParameter::IncomingSsnReset(IncomingSsnReset { request, streams })
}

pub(super) fn renumber(number: u32) -> ReConfigParameter<'static> {
    ReConfigParameter::SsnTsnReset(SsnTsnReset { request: RequestNumber(number) })
}

fn add_outgoing(number: u32, streams: u16) -> ReConfigParameter<'static> {
    ReConfigParameter::AddOutgoingStreams(AddOutgoingStreams { request: RequestNumber(number), streams })
}

fn add_incoming(number: u32, streams: u16) -> ReConfigParameter<'static> {
    ReConfigParameter::AddIncomingStreams(AddIncomingStreams { request: RequestNumber(number), streams })
}

fn response(number: RequestNumber, result: ResultCode) -> ReConfigParameter<'static> {
    ReConfigParameter::Response(Response::new(number, result))
}

/// Returns the server's events since the last call.
fn events(raw: &mut Raw) -> Vec<Event> {
    raw.pair.hosts[SERVER].events.drain(..).map(|(_, event)| event).collect()
}

fn reset(direction: StreamDirection, streams: impl Into<Streams>, outcome: Outcome, unread: usize) -> Event {
    Event::StreamsReset { direction, streams: streams.into(), outcome, unread }
}

/// Returns TSN, stream and SSN of the DATA in these packets.
fn data(packets: &[Sent]) -> Vec<(Tsn, u16, u16)> {
    let of = |chunk: strandline_wire::Chunk<'_>| match chunk {
        strandline_wire::Chunk::Data(data) => Some((data.tsn, data.stream.0, data.ssn.0)),
        _ => None,
    };
    packets.iter().flat_map(|sent| chunks(sent).into_iter().filter_map(of).collect::<Vec<_>>()).collect()
}

fn on_stream(tsn: Tsn, stream: u16, ssn: u16, payload: &[u8]) -> Data<'_> {
    Data::whole(tsn, StreamId(stream), Ssn(ssn), payload)
}
