//! RFC 4895: authenticated chunks. The hand-made peer derives its keys by itself.

mod keys;
mod negotiation;
mod receiver;
mod sender;
mod set_up;

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;
use strandline_wire::TlvWriter;
use strandline_wire::chunk::{Auth, Chunk, CookieEcho, Init};
use strandline_wire::number::Tsn;
use strandline_wire::parameter::{HmacIdentifiers, Parameter, Parameters};

use super::raw::*;
use super::*;
use crate::authentication::{Authentication, AuthenticationEvent, HmacAlgorithms, KeyId, SharedKey};
use crate::config::ExtensionsConfig;
use crate::endpoint::KeyChange;

const SHA1: u16 = 1;
const SHA256: u16 = 3;
const SECRET: &[u8] = b"only both ends know it";

/// Settings that demand these chunk types.
fn demanding(chunks: &[u8]) -> Authentication {
    Authentication { chunks: chunks.iter().copied().collect(), ..Authentication::default() }
}

fn configured(authentication: Option<Authentication>, host: usize) -> EndpointConfig {
    let extensions = ExtensionsConfig { authentication, ..ExtensionsConfig::default() };
    let association = Arc::new(AssociationConfig { extensions, ..AssociationConfig::default() });
    EndpointConfig { association, ..config(1, host) }
}

/// Two endpoints that demand these chunk types of each other.
fn pair(client: &[u8], server: &[u8]) -> Pair {
    let settings = |chunks| Some(demanding(chunks));
    Pair::with(configured(settings(client), CLIENT), configured(settings(server), SERVER))
}

/// Sets the only key of new associations.
fn set_only_key(pair: &mut Pair, host: usize, id: u16, secret: &[u8]) {
    let endpoint = &mut pair.hosts[host].endpoint;
    let id = KeyId(id);
    KeyChange::Set(id, SharedKey::new(secret)).apply_to_new(endpoint).unwrap();
    KeyChange::Activate(id).apply_to_new(endpoint).unwrap();
    if id != KeyId(0) {
        KeyChange::Deactivate(KeyId(0)).apply_to_new(endpoint).unwrap();
        KeyChange::Delete(KeyId(0)).apply_to_new(endpoint).unwrap();
    }
}

/// Exchanges messages in both directions, of one packet and of several. Returns whether all arrived.
fn exchange(pair: &mut Pair, client: AssociationId, server: AssociationId) -> bool {
    let mut all = true;
    for (host, id, to, there) in [(CLIENT, client, SERVER, server), (SERVER, server, CLIENT, client)] {
        for len in [1, 5000] {
            pair.send(host, id, 0, &vec![7; len]);
            pair.pass(Duration::from_secs(1));
            all &= pair.recv(to, there).map(|message| message.data.len()) == Some(len);
        }
    }
    all
}

/// Returns the notifications about authentication of one side.
fn events(pair: &Pair, host: usize) -> Vec<AuthenticationEvent> {
    let of = |(_, event): &(AssociationId, Event)| match event {
        Event::Authentication(event) => Some(*event),
        _ => None,
    };
    pair.hosts[host].events.iter().filter_map(of).collect()
}

/// Asserts that chunks of these types come only behind an AUTH chunk in the packets of one side.
pub(super) fn assert_behind_auth(pair: &Pair, host: usize, demanded: &[u8]) {
    let own = pair.log.iter().filter(|sent| sent.source.ip() == address(host, 0).ip());
    for kinds in own.map(Sent::kinds) {
        let auth = kinds.iter().position(|kind| *kind == kind::AUTH).unwrap_or(usize::MAX);
        let first = kinds.iter().position(|kind| demanded.contains(kind)).unwrap_or(usize::MAX);
        assert!(auth < first || first == usize::MAX, "{kinds:?}");
        assert!(auth == usize::MAX || first != usize::MAX, "nothing demands it: {kinds:?}");
        assert!(kinds.iter().filter(|kind| **kind == kind::AUTH).count() <= 1, "{kinds:?}");
    }
}

/// Encodes parameters.
pub(super) fn encode(parameters: &[Parameter<'_>]) -> Vec<u8> {
    let mut buffer = vec![0; 1200];
    let mut writer = TlvWriter::new(&mut buffer);
    assert!(parameters.iter().all(|parameter| writer.push(parameter)));
    writer.finish().to_vec()
}

/// Returns the key vector of an INIT or INIT ACK.
fn vector_of(parameters: Parameters<'_>) -> Vec<u8> {
    let mut vector = Vec::new();
    for kind in 0x8002..=0x8004_u16 {
        for raw in parameters.iter().flatten().filter(|raw| raw.kind == kind) {
            vector.extend_from_slice(raw.as_bytes());
        }
    }
    vector
}

/// A hand-made peer with authentication, in an association with the server.
pub(super) struct Peer {
    pub(super) raw: Raw,
    /// Both key vectors in order.
    vectors: Vec<u8>,
    secret: Vec<u8>,
    key: u16,
    hmac: u16,
}

impl Peer {
    /// A peer that demands nothing of a server that demands `chunks`.
    fn new(chunks: &[u8]) -> Self {
        Self::open(pair(&[], chunks), &[], HmacIdentifiers::SHA1)
    }

    /// A peer that demands these chunk types and lists these algorithms.
    fn open(pair: Pair, chunks: &[u8], hmacs: HmacIdentifiers<'_>) -> Self {
        Self::open_with(pair, chunks, hmacs, &[])
    }

    /// A peer with further parameters in its INIT.
    pub(super) fn open_with(
        mut pair: Pair,
        chunks: &[u8],
        hmacs: HmacIdentifiers<'_>,
        more: &[Parameter<'_>],
    ) -> Self {
        let own = [Parameter::Random(&[9; 32]), Parameter::ChunkList(chunks), Parameter::HmacAlgo(hmacs)];
        let parameters = encode(&[&own[..], more].concat());
        let init = Init { parameters: Parameters::new(&parameters), ..init(Tsn(1000)) };
        let ports = (RAW_PORT, PORT);
        let sent = pair.forge(CLIENT, ports, VerificationTag(0), |packet| assert!(packet.push(&init)));
        pair.deliver(&sent);
        let ack = pair.wire.pop_front().expect("an INIT ACK");
        let (tag, server_tsn, cookie) = init_ack(&ack);
        let Some(Chunk::InitAck(answer)) = chunks_of(&ack).into_iter().next() else { panic!("no INIT ACK") };
        let (own, theirs) = (vector_of(init.parameters), vector_of(answer.parameters));
        // They begin with 0x80, so the longer one is the larger number.
        let smaller_first = (own.len(), &own) <= (theirs.len(), &theirs);
        let vectors = if smaller_first { [own, theirs] } else { [theirs, own] }.concat();
        let server = AssociationId { slot: u32::MAX, generation: 0 };
        let raw = Raw { pair, server, tag, tsn: Tsn(1000), server_tsn };
        let mut peer = Self { raw, vectors, secret: Vec::new(), key: 0, hmac: SHA1 };
        peer.raw.pair.hosts[SERVER].events.clear();
        peer.echo(&cookie);
        peer
    }

    /// Sends the cookie. Becomes established.
    fn echo(&mut self, cookie: &[u8]) {
        let echo = CookieEcho { cookie };
        let answer = self.raw.say_all(&[&echo]);
        assert!(answer.iter().any(has(kind::COOKIE_ACK)), "{answer:?}");
        self.raw.server = self.raw.pair.accepted();
        self.raw.pair.hosts[SERVER].events.clear();
    }

    /// Returns the MAC over `covered`, in which the MAC is zero.
    fn mac(&self, covered: &[u8]) -> Vec<u8> {
        let key = [&self.secret[..], &self.vectors].concat();
        match self.hmac {
            SHA1 => Hmac::<Sha1>::new_from_slice(&key)
                .unwrap()
                .chain_update(covered)
                .finalize()
                .into_bytes()
                .to_vec(),
            _ => Hmac::<Sha256>::new_from_slice(&key)
                .unwrap()
                .chain_update(covered)
                .finalize()
                .into_bytes()
                .to_vec(),
        }
    }

    fn mac_len(&self) -> usize {
        if self.hmac == SHA1 { 20 } else { 32 }
    }

    /// Returns AUTH and these chunks as bytes, with a right MAC.
    pub(super) fn behind_auth(&self, chunks: &[&dyn strandline_wire::Encode]) -> Vec<u8> {
        let mut bytes =
            self.bytes_of(&[&Auth { key: self.key, hmac: self.hmac, mac: &vec![0; self.mac_len()] }]);
        bytes.extend(self.bytes_of(chunks));
        let mac = self.mac(&bytes);
        bytes[8..8 + mac.len()].copy_from_slice(&mac);
        bytes
    }

    /// Returns chunks as bytes.
    pub(super) fn bytes_of(&self, chunks: &[&dyn strandline_wire::Encode]) -> Vec<u8> {
        let sent = self.raw.pair.forge(CLIENT, (RAW_PORT, PORT), self.raw.tag, |packet| {
            for chunk in chunks {
                let value = packet.push_raw(chunk.kind(), chunk.flags(), chunk.value_len()).expect("room");
                chunk.encode_value(value);
            }
        });
        sent.bytes[12..].to_vec()
    }

    /// Sends chunks behind an AUTH chunk. Returns what the server sends.
    pub(super) fn say_behind_auth(&mut self, chunks: &[&dyn strandline_wire::Encode]) -> Vec<Sent> {
        let bytes = self.behind_auth(chunks);
        self.raw.say_bytes(&bytes)
    }

    fn events(&mut self) -> Vec<AuthenticationEvent> {
        self.raw.pair.collect();
        events(&self.raw.pair, SERVER)
    }

    /// Asserts that nothing of a packet was accepted: no message, no answer, the same state.
    #[track_caller]
    fn ignores(&mut self, bytes: &[u8]) {
        let state = self.raw.state();
        let before = self.raw.server().status(self.raw.server).unwrap();
        let sent = self.raw.say_bytes(bytes);
        assert!(sent.is_empty(), "{:?}", sent.iter().map(Sent::kinds).collect::<Vec<_>>());
        assert!(self.raw.wait(Duration::from_secs(1)).iter().all(|sent| !has(kind::SACK)(sent)));
        assert!(self.raw.read().is_empty());
        assert_eq!(self.raw.state(), state);
        let after = self.raw.server().status(self.raw.server).unwrap();
        assert_eq!((before.peer_tag, before.local_tag), (after.peer_tag, after.local_tag));
    }
}

/// Returns the parsed chunks of a packet.
fn chunks_of(sent: &Sent) -> Vec<Chunk<'_>> {
    chunks(sent)
}
