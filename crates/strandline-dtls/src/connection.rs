//! A DTLS connection: one with each peer, over all of its addresses.

use core::time::Duration;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use dimpl::{Dtls, DtlsCertificate, Output};
use rustls_pki_types::UnixTime;

use crate::control::{Control, is_control};
use crate::failure::Failure;
use crate::fingerprint::Fingerprint;
use crate::header::{Cid, HEADER_LEN_MAX, Header};
use crate::identity::PeerIdentity;
use crate::inbox::Inbox;
use crate::known_hosts::KnownHost;
use crate::packets::{Arrival, Outgoing};
use crate::paths::Paths;
use crate::token::{ResetToken, ResetTokens, is_same};
use crate::trust::{Trust, TrustError};

/// First interval between two Hellos; each is twice the one before, up to the second.
const HELLO_FIRST: Duration = Duration::from_millis(100);
const HELLO_MAX: Duration = Duration::from_secs(2);

/// Datagrams of a client's first flight that are kept until the server has answered.
const FLIGHT_MAX: usize = 4;

/// Bytes that a DTLS 1.3 record adds to its contents (RFC 9147 section 4): a unified header of 5 bytes with a sequence
/// number of 16 bits and a length, the content type, and the tag of the AEAD.
pub(crate) const RECORD_OVERHEAD: usize = 5 + 1 + 16;

/// Maximum number of bytes by which a sealed packet is longer than the packet.
pub(crate) const SEALED_EXTRA_MAX: usize = HEADER_LEN_MAX + RECORD_OVERHEAD;

/// Maximum length in bytes of what dimpl sends by itself: handshake messages of at most `HANDSHAKE_LEN_MAX` bytes,
/// alerts and acknowledgements.
const OUTPUT_LEN_MAX: usize = 2048;

/// dimpl reports a time at least this far away if it has no timer.
const NO_TIMER: Duration = Duration::from_secs(3600);

/// Shortest time that a timer of dimpl runs.
const TIMER_MIN: Duration = Duration::from_millis(5);

/// Outputs of dimpl after one input at most.
const OUTPUTS_MAX: usize = 256;

/// Which side this is, and for a client whom it wants to reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    Client { name: Option<String> },
    Server,
}

/// The side of a connection on which a peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerSide {
    /// The peer has begun the connection, from any port.
    Client,
    /// This side has begun the connection: address and port are the server's.
    Server,
}

/// What a connection needs from the layer.
pub(crate) struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) wall: UnixTime,
    pub(crate) trust: &'a Trust,
    pub(crate) anonymous_clients: bool,
    /// The own key.
    pub(crate) own: Fingerprint,
    pub(crate) held_max: usize,
    pub(crate) resets: &'a ResetTokens,
    pub(crate) out: &'a mut VecDeque<Outgoing>,
    pub(crate) inbox: &'a mut Inbox,
    /// Servers that became known.
    pub(crate) learned: &'a mut Vec<KnownHost>,
    /// Random.
    pub(crate) nonce: u64,
}

/// A packet that waits for the handshake.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) destination: SocketAddr,
    pub(crate) source: Option<IpAddr>,
    pub(crate) bytes: Vec<u8>,
}

/// The exchange of Hellos.
#[derive(Debug)]
struct Hello {
    /// When the next is due; `None` before the handshake is complete, and once the peer has confirmed.
    next: Option<Instant>,
    wait: Duration,
    /// Whether the peer's Hello was valid.
    is_confirmed: bool,
    /// By which a Reset of the server is recognised.
    reset: Option<ResetToken>,
}

/// How a connection begins.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) role: Role,
    pub(crate) cid: Cid,
    /// `None` until it is known, and with peers that have none.
    pub(crate) peer_cid: Option<Cid>,
    /// Whether this connection omits the outer header.
    pub(crate) is_plain: bool,
}

pub(crate) struct Connection {
    dtls: Dtls,
    pub(crate) cid: Cid,
    /// `None` until it is known, and with peers that have none.
    peer_cid: Option<Cid>,
    /// Whether this connection omits the outer header.
    is_plain: bool,
    role: Role,
    pub(crate) is_established: bool,
    identity: Option<PeerIdentity>,
    /// The peer's certificate, DER; empty without one.
    certificate: Vec<u8>,
    token: Vec<u8>,
    flight: VecDeque<Vec<u8>>,
    hello: Hello,
    held: Vec<Held>,
    /// Packets that came before the peer's Hello.
    early: Vec<Vec<u8>>,
    /// Messages to be sent once dimpl has been emptied.
    pending: Vec<(Control, SocketAddr, Option<IpAddr>)>,
    /// Why the client is refused. It is sent a Refuse once the handshake is complete.
    refused: Option<TrustError>,
    pub(crate) paths: Paths,
    /// The local address that the peer uses.
    local: Option<IpAddr>,
    pub(crate) last_heard: Instant,
    /// INITs sent since anything was heard.
    pub(crate) inits_unanswered: u32,
    /// The latest time that dimpl was given; it must know one before its first input.
    time: Option<Instant>,
    dtls_timeout: Option<Instant>,
    /// Of a client's connection: where its first datagram came from, and the connection ID in it.
    pub(crate) initial: Option<(SocketAddr, Cid)>,
    /// The timer that the layer has set.
    pub(crate) armed: Option<Instant>,
}

impl core::fmt::Debug for Connection {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Connection")
            .field("cid", &self.cid)
            .field("is_established", &self.is_established)
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new(
        config: Arc<dimpl::Config>,
        certificate: DtlsCertificate,
        end: End,
        peer: SocketAddr,
        now: Instant,
    ) -> Self {
        let End { role, cid, peer_cid, is_plain } = end;
        let mut dtls = Dtls::new_13(config, certificate, now);
        dtls.set_active(role != Role::Server);
        Self {
            dtls,
            cid,
            peer_cid,
            is_plain,
            role,
            is_established: false,
            identity: None,
            certificate: Vec::new(),
            token: Vec::new(),
            flight: VecDeque::new(),
            hello: Hello { next: None, wait: HELLO_FIRST, is_confirmed: is_plain, reset: None },
            held: Vec::new(),
            early: Vec::new(),
            pending: Vec::new(),
            refused: None,
            paths: Paths::new(peer),
            local: None,
            last_heard: now,
            inits_unanswered: 0,
            time: None,
            dtls_timeout: None,
            initial: None,
            armed: None,
        }
    }

    pub(crate) fn identity(&self) -> Option<&PeerIdentity> {
        self.identity.as_ref()
    }

    /// Returns whether a token is that of the server, after a new start.
    pub(crate) fn is_reset_by(&self, token: &[u8]) -> bool {
        self.hello.reset.is_some_and(|reset| is_same(&reset, token))
    }

    pub(crate) fn peer_cid(&self) -> Option<Cid> {
        self.peer_cid
    }

    /// Returns whether this is a client whose server has not answered yet.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.role != Role::Server && self.peer_cid.is_none() && !self.is_established
    }

    /// Returns whether this is a client that no server has even asked for a token.
    pub(crate) fn is_unasked(&self) -> bool {
        self.is_unanswered() && self.token.is_empty()
    }

    /// Returns the side of the peer.
    pub(crate) fn peer_side(&self) -> PeerSide {
        if self.role == Role::Server { PeerSide::Client } else { PeerSide::Server }
    }

    /// Returns whether this is a client that has proved nothing.
    pub(crate) fn is_strange(&self) -> bool {
        self.role == Role::Server && self.identity.is_none()
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Returns whether packets may be sent, as far as the handshake goes.
    pub(crate) fn can_send(&self) -> bool {
        self.is_established && (self.is_plain || self.peer_cid.is_some())
    }

    /// Returns when [`on_timeout`](Self::on_timeout) is to be called.
    pub(crate) fn timeout(&self, idle: Duration) -> Instant {
        let idle = self.last_heard + idle;
        let due = [self.dtls_timeout, self.hello.next].into_iter().flatten().min();
        due.map_or(idle, |due| due.min(idle))
    }

    /// Begins the handshake of a client.
    pub(crate) fn start(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        self.advance_time(cx)?;
        self.drive(cx, None)
    }

    /// Handles the records of a datagram. The packets in it are in the inbox.
    pub(crate) fn receive(
        &mut self,
        cx: &mut Context<'_>,
        arrival: &Arrival,
        peer_cid: Option<Cid>,
        records: &[u8],
    ) -> Result<(), Failure> {
        if let Some(cid) = peer_cid {
            match self.peer_cid {
                None if !self.is_plain => {
                    self.peer_cid = Some(cid);
                    self.paths.prefer(arrival.source);
                }
                known if known == Some(cid) => {}
                _ => return Ok(()),
            }
        }
        if !self.is_established {
            self.local = arrival.destination;
        }
        self.advance_time(cx)?;
        self.dtls.handle_packet(records).map_err(Failure::of)?;
        self.drive(cx, Some(arrival))
    }

    /// Handles timers.
    pub(crate) fn on_timeout(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        self.advance_time(cx)?;
        if self.hello.next.is_some_and(|at| at <= cx.now) {
            self.send_hello(cx.resets);
            self.hello.wait = (self.hello.wait * 2).min(HELLO_MAX);
            self.hello.next = Some(cx.now + self.hello.wait);
        }
        self.drive(cx, None)
    }

    /// Begins anew with the token that a server asks for.
    pub(crate) fn on_retry(&mut self, cx: &mut Context<'_>, token: &[u8]) -> Result<(), Failure> {
        if !self.is_unasked() {
            return Ok(());
        }
        self.token = token.to_vec();
        for records in &self.flight {
            let header = Header::Initial { source: self.cid, token: &self.token, records };
            cx.out.extend(self.paths.known().map(|address| Outgoing::new(address, None, &header)));
        }
        Ok(())
    }

    /// Also tries another address of the server, as long as none has answered.
    pub(crate) fn also_try(&mut self, cx: &mut Context<'_>, address: SocketAddr) {
        if !self.paths.add(address) || self.is_established || self.peer_cid.is_some() {
            return;
        }
        for records in &self.flight {
            let header = Header::Initial { source: self.cid, token: &self.token, records };
            cx.out.push_back(Outgoing::new(address, None, &header));
        }
    }

    /// Keeps a packet until the handshake is complete.
    pub(crate) fn hold(&mut self, cx: &Context<'_>, held: Held) {
        if self.held.len() >= cx.held_max {
            self.held.remove(0);
        }
        self.held.push(held);
    }

    /// Encrypts a packet into `out`, header included. Returns the length; `None` if it does not fit or the
    /// connection has failed.
    pub(crate) fn seal(&mut self, packet: &[u8], out: &mut [u8]) -> Option<usize> {
        self.dtls.send_application_data(packet).ok()?;
        let header_len = self.write_header(out)?;
        match self.dtls.poll_output(out.get_mut(header_len..)?) {
            Output::Packet(record) => Some(header_len + record.len()),
            _ => None,
        }
    }

    /// Sends what dimpl may have produced beside packets.
    pub(crate) fn finish_sealing(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        self.drive(cx, None)
    }

    /// Tells the peer that the connection ends.
    pub(crate) fn close(&mut self, cx: &mut Context<'_>) {
        if self.is_established && self.dtls.close().is_ok() {
            // It ends anyway.
            let _ = self.drive(cx, None);
        }
    }

    /// Writes the header in front of records after the handshake. Returns its length.
    fn write_header(&self, out: &mut [u8]) -> Option<usize> {
        if self.is_plain {
            return Some(0);
        }
        let destination = self.peer_cid?;
        let mut bytes = Vec::with_capacity(HEADER_LEN_MAX);
        let header = if self.hello.is_confirmed {
            Header::Data { destination, record: &[] }
        } else {
            Header::Handshake { destination, source: self.cid, records: &[] }
        };
        header.write(&mut bytes);
        out.get_mut(..bytes.len())?.copy_from_slice(&bytes);
        Some(bytes.len())
    }

    /// dimpl wants to know the time before it gets input.
    fn advance_time(&mut self, cx: &Context<'_>) -> Result<(), Failure> {
        if self.time != Some(cx.now) {
            self.time = Some(cx.now);
            self.dtls.handle_timeout(cx.now).map_err(Failure::of)?;
        }
        Ok(())
    }

    /// Takes everything out of dimpl, then sends what it led to. `arrival` is that of the datagram that was put in.
    fn drive(&mut self, cx: &mut Context<'_>, arrival: Option<&Arrival>) -> Result<(), Failure> {
        self.empty(cx, arrival)?;
        if !self.is_established {
            return Ok(());
        }
        let held = std::mem::take(&mut self.held);
        let pending = std::mem::take(&mut self.pending);
        if held.is_empty() && pending.is_empty() {
            return Ok(());
        }
        for (control, destination, source) in pending {
            self.send(cx, &control.to_bytes(), destination, source);
        }
        for held in held {
            let destination = self.paths.actual(held.destination);
            self.send(cx, &held.bytes, destination, held.source);
        }
        if let Some(error) = self.refused.take() {
            // It ends anyway.
            let _ = self.dtls.close();
            self.empty(cx, None)?;
            return Err(error.into());
        }
        self.empty(cx, None)
    }

    fn empty(&mut self, cx: &mut Context<'_>, arrival: Option<&Arrival>) -> Result<(), Failure> {
        let mut buffer = [0; OUTPUT_LEN_MAX];
        for _ in 0..OUTPUTS_MAX {
            // Handshake messages are short, and so is all else that dimpl sends by itself.
            let target = if arrival.is_some() { cx.inbox.room() } else { &mut buffer[..] };
            match self.dtls.poll_output(target) {
                Output::Timeout(at) => {
                    let is_near = at < cx.now + NO_TIMER;
                    // It may ask for a timer that is due at once again and again, after damaged handshakes.
                    self.dtls_timeout = is_near.then_some(at.max(cx.now + TIMER_MIN));
                    return Ok(());
                }
                Output::Packet(records) => {
                    let records = records.to_vec();
                    self.send_records(cx, &records);
                }
                Output::ApplicationData(data) => {
                    let len = data.len();
                    if let Some(arrival) = arrival {
                        self.on_data(cx, arrival, len)?;
                    }
                }
                Output::PeerCert(certificate) => {
                    let certificate = certificate.to_vec();
                    self.on_certificate(cx, &certificate)?;
                }
                Output::Connected => self.on_connected(cx)?,
                Output::CloseNotify => return Err(Failure::Closed),
                Output::BufferTooSmall { .. } => {
                    return Err(Failure::Dtls("a record is too long".to_owned()));
                }
                _ => {}
            }
        }
        Err(Failure::Dtls("too many outputs".to_owned()))
    }

    fn on_connected(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        // dimpl demands certificates itself; it must not be the only one.
        let may_be_anonymous = self.role == Role::Server && cx.anonymous_clients;
        if self.identity.is_none() && self.refused.is_none() && !may_be_anonymous {
            return Err(Failure::Trust(TrustError::NoCertificate));
        }
        self.is_established = true;
        self.flight = VecDeque::new();
        self.last_heard = cx.now;
        if self.refused.is_some() {
            let destination = self.paths.primary().ok_or(Failure::Closed)?;
            self.pending.push((Control::Refuse, destination, self.local));
        } else if !self.is_plain {
            self.hello.next = Some(cx.now + self.hello.wait);
            self.send_hello(cx.resets);
        }
        Ok(())
    }

    /// Handles application data of `len` bytes at the start of the inbox's room.
    fn on_data(&mut self, cx: &mut Context<'_>, arrival: &Arrival, len: usize) -> Result<(), Failure> {
        self.last_heard = cx.now;
        self.inits_unanswered = 0;
        let Some(data) = cx.inbox.room().get(..len) else { return Ok(()) };
        if is_control(data) {
            return match Control::parse(data) {
                Some(control) if !self.is_plain => self.on_control(cx, arrival, control),
                _ => Ok(()),
            };
        }
        if self.hello.is_confirmed {
            cx.inbox.keep(len);
            if self.paths.place(arrival.source).challenge {
                self.challenge(cx, arrival);
            }
        } else if self.early.len() < cx.held_max {
            self.early.push(data.to_vec());
        }
        Ok(())
    }

    fn on_control(
        &mut self,
        cx: &mut Context<'_>,
        arrival: &Arrival,
        control: Control,
    ) -> Result<(), Failure> {
        match control {
            Control::Hello { own, peer, confirmed, reset } => {
                if Some(own) != self.peer_cid || peer != self.cid {
                    return Err(Failure::Confirmation);
                }
                self.hello.reset = reset;
                if !std::mem::replace(&mut self.hello.is_confirmed, true) {
                    for bytes in std::mem::take(&mut self.early) {
                        cx.inbox.push(&bytes);
                    }
                }
                if confirmed {
                    self.hello.next = None;
                } else {
                    self.send_hello(cx.resets);
                }
                Ok(())
            }
            Control::Challenge { nonce } => {
                self.pending.push((Control::Response { nonce }, arrival.source, arrival.destination));
                Ok(())
            }
            Control::Refuse => Err(Failure::Refused(cx.own)),
            Control::Response { nonce } => {
                if let Some((old, new)) = self.paths.on_response(arrival.source, nonce) {
                    self.local = arrival.destination;
                    tracing::debug!(%old, %new, "peer address changed");
                }
                Ok(())
            }
        }
    }

    /// Asks the peer whether it is at the address that a record came from.
    fn challenge(&mut self, cx: &Context<'_>, arrival: &Arrival) {
        if !self.is_plain && self.paths.challenge(cx.now, arrival.source, cx.nonce) {
            let challenge = Control::Challenge { nonce: cx.nonce };
            self.pending.push((challenge, arrival.source, arrival.destination));
        }
    }

    fn send_hello(&mut self, resets: &ResetTokens) {
        if let (Some(peer), Some(destination)) = (self.peer_cid, self.paths.primary()) {
            let is_server = self.role == Role::Server;
            let reset = is_server.then(|| resets.of(self.cid, destination));
            let hello = Control::Hello { own: self.cid, peer, confirmed: self.hello.is_confirmed, reset };
            self.pending.push((hello, destination, self.local));
        }
    }

    /// Sends data after dimpl has been emptied.
    fn send(&mut self, cx: &mut Context<'_>, data: &[u8], destination: SocketAddr, source: Option<IpAddr>) {
        let mut bytes = vec![0; data.len() + SEALED_EXTRA_MAX];
        if let Some(len) = self.seal(data, &mut bytes) {
            bytes.truncate(len);
            cx.out.push_back(Outgoing { destination, source, bytes });
        }
    }

    /// Sends records that dimpl made by itself, with the header that the state of the handshake calls for.
    fn send_records(&mut self, cx: &mut Context<'_>, records: &[u8]) {
        let Some(primary) = self.paths.primary() else { return };
        match self.peer_cid {
            _ if self.is_plain => {
                cx.out.push_back(Outgoing::new(primary, self.local, &Header::Plain { records }));
            }
            Some(destination) if self.hello.is_confirmed => {
                let header = Header::Data { destination, record: records };
                cx.out.push_back(Outgoing::new(primary, self.local, &header));
            }
            Some(destination) => {
                let header = Header::Handshake { destination, source: self.cid, records };
                cx.out.push_back(Outgoing::new(primary, self.local, &header));
            }
            None => {
                let header = Header::Initial { source: self.cid, token: &self.token, records };
                cx.out.extend(self.paths.known().map(|address| Outgoing::new(address, None, &header)));
                if !self.flight.iter().any(|known| known == records) {
                    if self.flight.len() >= FLIGHT_MAX {
                        self.flight.pop_front();
                    }
                    self.flight.push_back(records.to_vec());
                }
            }
        }
    }
}

mod verification;
