//! One of the two sides, and what it must observe.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use strandline_proto::authentication::{KeyId, SharedKey};
use strandline_proto::config::EndpointConfig;
use strandline_proto::dynamic_addresses::AddressRequest;
use strandline_proto::endpoint::{DynamicStreams, Endpoint, KeyChange, StreamCredits};
use strandline_proto::event::{AssociationId, Event, FailureCause, Message};
use strandline_proto::number::StreamId;
use strandline_proto::reconfiguration::OpenedBy;
use strandline_proto::reliability::{Limit, Reliability};
use strandline_proto::time::Time;
use strandline_wire::Chunk;

use crate::Offer;

/// The credit that each stream begins with.
pub(crate) const CREDIT_INITIAL: u32 = 1 << 12;

/// Streams from here on are opened and closed at run time, if a side says so.
const DYNAMIC_FROM: u16 = 4;

pub(crate) fn addresses(side: usize) -> [IpAddr; 2] {
    [[192, 0, 2, 1 + side as u8].into(), [198, 51, 100, 1 + side as u8].into()]
}

/// A packet under way, from one of a side's addresses to one of the other's.
#[derive(Clone)]
pub(crate) struct Packet {
    pub(crate) from: SocketAddr,
    pub(crate) to: IpAddr,
    /// The encapsulation port that it goes to.
    pub(crate) port: u16,
    pub(crate) bytes: Vec<u8>,
    /// The ECN bits, as the network has left them.
    pub(crate) ecn: u8,
}

pub(crate) struct Side {
    pub(crate) number: usize,
    pub(crate) endpoint: Endpoint,
    pub(crate) known: Vec<AssociationId>,
    pub(crate) outbox: Vec<Packet>,
    /// The beginnings of messages that are received in parts.
    pub(crate) parts: HashMap<(AssociationId, StreamId, bool), Vec<u8>>,
    pub(crate) received: HashSet<u32>,
    pub(crate) failed: HashSet<u32>,
    pub(crate) unsent: HashSet<u32>,
    /// Messages that the endpoint took, with their associations.
    pub(crate) given: HashMap<u32, AssociationId>,
    /// Messages whose beginnings were received and given up.
    pub(crate) cut: HashSet<u32>,
    /// The latest ordered message of each stream.
    pub(crate) latest: HashMap<(AssociationId, StreamId), u32>,
    /// Bytes that were received and are not read yet: they hold the credit of their streams.
    pub(crate) unread: Vec<(AssociationId, StreamId, usize)>,
    /// Associations that ended or were restarted: their messages may be lost.
    pub(crate) ended: HashSet<AssociationId>,
    /// The encapsulation port as the peer sees it: a NAT may give it another one.
    pub(crate) port: u16,
    /// How often the side was restarted.
    life: u8,
    /// The limit of messages without one of their own.
    default_reliability: Reliability,
    /// The highest credit of each stream that was told, of any association.
    told: HashMap<StreamId, u32>,
    /// Bytes that were received on each stream since the beginning of its association.
    arrived: HashMap<(AssociationId, StreamId), u32>,
    /// Associations whose streams have begun anew: their bytes are not counted.
    begun_anew: HashSet<AssociationId>,
}

/// The encapsulation port at first.
const PORT: u16 = 9899;

impl Side {
    pub(crate) fn new(number: usize, offer: &Offer) -> Self {
        Self::with_life(number, offer, Time::ZERO, 0)
    }

    fn with_life(number: usize, offer: &Offer, now: Time, life: u8) -> Self {
        let config = EndpointConfig {
            association: offer.association().into(),
            local_addresses: addresses(number).to_vec(),
            ..EndpointConfig::default()
        };
        let mut endpoint =
            Endpoint::new(config, [number as u8 ^ life << 1; 32], now).expect("the parameters are valid");
        endpoint.listen(7).expect("a free port");
        Self {
            number,
            endpoint,
            known: Vec::new(),
            outbox: Vec::new(),
            parts: HashMap::new(),
            received: HashSet::new(),
            failed: HashSet::new(),
            unsent: HashSet::new(),
            given: HashMap::new(),
            cut: HashSet::new(),
            latest: HashMap::new(),
            unread: Vec::new(),
            ended: HashSet::new(),
            port: PORT,
            life,
            default_reliability: offer.default_reliability(),
            told: HashMap::new(),
            arrived: HashMap::new(),
            begun_anew: HashSet::new(),
        }
    }

    /// Loses all state: a new endpoint takes the place of this one. What the old one has received counts all the same.
    pub(crate) fn restart(&mut self, offer: &Offer, now: Time) {
        let new = Self::with_life(self.number, offer, now, self.life.wrapping_add(1));
        let old = core::mem::replace(self, new);
        self.received = old.received;
        self.failed = old.failed;
        self.unsent = old.unsent;
        self.cut = old.cut;
        self.port = old.port;
        self.outbox = old.outbox;
    }

    pub(crate) fn latest(&self) -> Option<AssociationId> {
        self.known.last().copied()
    }

    /// Takes packets and events.
    pub(crate) fn pump(&mut self, now: Time, damaged: bool) {
        let mut buffer = [0; 2048];
        let mut rounds = 0;
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut buffer, 1) {
            rounds += 1;
            assert!(rounds < 10_000, "poll_transmit does not end");
            self.note_credit(&buffer[..transmit.len]);
            let near = usize::from(transmit.destination.ip() == addresses(1 - self.number)[1]);
            let source = transmit.source.unwrap_or(addresses(self.number)[near]);
            if self.outbox.len() < 256 {
                let bytes = buffer[..transmit.len].to_vec();
                let from = SocketAddr::new(source, self.port);
                let port = transmit.destination.port();
                let ecn = if transmit.ecn_capable { 0b10 } else { 0 };
                self.outbox.push(Packet { from, to: transmit.destination.ip(), port, bytes, ecn });
            }
        }
        while let Some((id, event)) = self.endpoint.poll_event() {
            match event {
                Event::Established { .. } if !self.known.contains(&id) => {
                    self.known.push(id);
                    StreamCredits::of(&mut self.endpoint, id).report_reads();
                }
                Event::AssociationReset { .. } => _ = self.begun_anew.insert(id),
                Event::PartialDeliveryAborted { .. }
                | Event::Restarted { .. }
                | Event::StreamsReset { .. } => {
                    if matches!(event, Event::Restarted { .. }) {
                        self.ended.insert(id);
                    }
                    if !matches!(event, Event::PartialDeliveryAborted { .. }) {
                        self.begun_anew.insert(id);
                    }
                    self.drop_parts(id);
                }
                Event::Closed(_) => _ = self.ended.insert(id),
                Event::SendFailed(failed) => {
                    let number = failed.info.context;
                    assert!(self.failed.insert(number), "message {number} failed twice");
                    let limit = match failed.info.reliability {
                        Reliability::DEFAULT => self.default_reliability.limit(),
                        own => own.limit(),
                    };
                    let is_right = match failed.cause {
                        FailureCause::Expired => matches!(limit, Limit::Lifetime { .. }),
                        FailureCause::RetransmissionsExhausted => {
                            matches!(limit, Limit::Retransmissions { .. })
                        }
                        FailureCause::LowPriority => matches!(limit, Limit::Priority { .. }),
                        _ => true,
                    };
                    assert!(is_right, "message {number} with {limit:?} failed as {:?}", failed.cause);
                    if !failed.sent && !damaged {
                        self.unsent.insert(number);
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes in what a packet tells of credit.
    fn note_credit(&mut self, bytes: &[u8]) {
        let Ok(packet) = strandline_wire::Packet::parse(bytes) else { return };
        for chunk in packet.chunks().flatten() {
            let Ok(Chunk::StreamCredit(credit)) = chunk.parse() else { continue };
            for credit in credit.credits() {
                let told = self.told.entry(credit.stream).or_default();
                *told = credit.limit.max(*told);
            }
        }
    }

    /// Counts the bytes of a message, and checks that they are within the credit of its stream.
    fn check_credit(&mut self, id: AssociationId, message: &Message, damaged: bool) {
        let arrived = self.arrived.entry((id, message.stream)).or_default();
        *arrived += message.data.len() as u32;
        let agreed = self.endpoint.status(id).is_some_and(|status| status.extensions.stream_credit);
        if agreed && !damaged && !self.begun_anew.contains(&id) {
            let limit = self.told.get(&message.stream).copied().unwrap_or(0).max(CREDIT_INITIAL);
            assert!(*arrived <= limit, "{} bytes on {:?} with credit for {limit}", *arrived, message.stream);
        }
    }

    /// Forgets the beginnings of messages.
    fn drop_parts(&mut self, id: AssociationId) {
        for (_, part) in self.parts.extract_if(|(of, ..), _| *of == id) {
            self.cut.extend(part.first_chunk().map(|head| u32::from_be_bytes(*head)));
        }
    }

    pub(crate) fn recv(&mut self, now: Time, count: u8, reads: bool, unsent: &HashSet<u32>, damaged: bool) {
        for id in self.known.clone() {
            for _ in 0..count {
                let Some(message) = self.endpoint.recv(now, id) else { break };
                self.unread.push((id, message.stream, message.data.len()));
                self.check_credit(id, &message, damaged);
                if !damaged {
                    self.take(id, &message, unsent);
                }
            }
        }
        if reads {
            for (id, stream, len) in self.unread.drain(..) {
                StreamCredits::of(&mut self.endpoint, id).read(now, stream, len);
            }
        }
    }

    /// Checks a message, or the last part of one.
    fn take(&mut self, id: AssociationId, message: &Message, unsent: &HashSet<u32>) {
        let key = (id, message.stream, message.unordered);
        if message.begins {
            let cut = self.parts.remove(&key);
            self.cut.extend(cut.and_then(|part| Some(u32::from_be_bytes(*part.first_chunk()?))));
        } else if !self.parts.contains_key(&key) {
            return; // Its beginning was given up.
        }
        let whole = self.parts.entry(key).or_default();
        whole.extend(&message.data);
        if !message.ends {
            return;
        }
        let whole = self.parts.remove(&key).unwrap_or_default();
        let Some((head, body)) = whole.split_first_chunk() else { return };
        let number = u32::from_be_bytes(*head);
        assert!(self.received.insert(number), "message {number} came twice");
        assert!(!unsent.contains(&number), "message {number} came and was never sent");
        if !message.unordered {
            let before = self.latest.insert((id, message.stream), number);
            assert!(before < Some(number), "message {number} came after {before:?}");
        }
        assert!(body.iter().all(|byte| *byte == number as u8), "message {number} was altered");
    }

    pub(crate) fn close(&mut self, now: Time, id: AssociationId, stream: u8, what: u8) {
        let stream = StreamId(DYNAMIC_FROM + u16::from(stream % 8));
        let mut streams = DynamicStreams::of(&mut self.endpoint, id);
        match what % 6 {
            0 => _ = streams.begin(StreamId(DYNAMIC_FROM)),
            1 => streams.close(now, stream),
            2 => streams.reset(now, stream),
            3 => streams.stop(now, stream, OpenedBy::Us),
            4 => streams.stop(now, stream, OpenedBy::Peer),
            _ => streams.add(now, 3, 2),
        }
    }

    pub(crate) fn change_key(&mut self, id: AssociationId, key: u8, what: u8) {
        let key = KeyId(u16::from(key % 3));
        let change = match what % 4 {
            0 => KeyChange::Set(key, SharedKey::new(b"known to both")),
            1 => KeyChange::Activate(key),
            2 => KeyChange::Deactivate(key),
            _ => KeyChange::Delete(key),
        };
        let _ = change.apply(&mut self.endpoint, id);
    }

    pub(crate) fn change_address(&mut self, now: Time, id: AssociationId, address: u8, what: u8) {
        let address = match address % 4 {
            0 => addresses(self.number)[0],
            1 => addresses(self.number)[1],
            2 => [203, 0, 113, 7].into(),
            _ => [0, 0, 0, 0].into(),
        };
        let request = match what % 3 {
            0 => AddressRequest::Add(address),
            1 => AddressRequest::Delete(address),
            _ => AddressRequest::SetPrimary(address),
        };
        let _ = self.endpoint.addresses(id).request(now, &[request]);
    }
}
