//! The transports of a shard: UDP, connections over TCP, TLS and WebSocket, associations over SCTP, and other
//! workers of the server.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::transaction::{ClientId, Flow, Outbox, Protocol};

use super::socket::{Carriers, Connections, Letter, Mail, Room, TlsSides, Udp};

/// Settings of WebSocket connections (RFC 7118).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebSockets {
    /// Origins whose pages may connect; any may if empty. Clients other than browsers send no Origin.
    pub(super) origins: Vec<String>,
    /// Time without a message after which a ping is sent; `None` for no pings.
    pub(super) ping: Option<Duration>,
}

/// Messages that could not be sent.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    /// The transactions of unsent requests.
    pub(super) requests: Vec<ClientId>,
    pub(super) responses: Vec<(Flow, Vec<u8>)>,
}

impl Unsent {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.responses.is_empty()
    }

    fn note(&mut self, flow: Flow, client: Option<ClientId>, bytes: &[u8]) {
        match client {
            Some(client) => self.requests.push(client),
            None if is_response(bytes) => self.responses.push((flow, bytes.to_vec())),
            None => {}
        }
    }
}

fn is_response(bytes: &[u8]) -> bool {
    bytes.starts_with(b"SIP/2.0 ")
}

/// The sockets, connections and associations of a shard, and the settings of new ones.
pub(super) struct Transports {
    pub(super) connections: Connections,
    pub(super) udp: RefCell<Option<Rc<Udp>>>,
    pub(super) sctp: RefCell<Carriers>,
    /// The sockets to the other workers of this server, if there are any.
    pub(super) mail: RefCell<Option<Rc<Mail>>>,
    /// The TLS settings of new connections.
    pub(super) tls: RefCell<TlsSides>,
    pub(super) websocket: RefCell<Rc<WebSockets>>,
    /// Maximum numbers of connections.
    pub(super) room: Cell<Room>,
}

impl Transports {
    pub(super) fn new(connections: Connections) -> Self {
        Self {
            connections,
            udp: RefCell::default(),
            sctp: RefCell::default(),
            mail: RefCell::default(),
            tls: RefCell::default(),
            websocket: RefCell::default(),
            room: Cell::default(),
        }
    }

    /// The flows of all connections and associations.
    pub(super) fn flows(&self) -> Vec<Flow> {
        let mut flows = self.connections.flows();
        flows.extend(self.sctp.borrow().flows());
        flows
    }

    /// The number of associations.
    pub(super) fn associations(&self) -> usize {
        self.sctp.borrow().len()
    }

    /// Returns true if there are more associations than connections.
    pub(super) fn is_mostly_sctp(&self) -> bool {
        self.associations() > self.connections.len()
    }

    /// Closes a connection or an association. Returns false if it has ended already.
    pub(super) fn close(&self, flow: &Flow) -> bool {
        if let Some(mail) = self.mail.borrow().as_ref()
            && let Some(worker) = mail.other(flow)
        {
            let posted = mail.post(worker, &Letter::Close { flow: *flow });
            mail.flush();
            return posted;
        }
        match flow.protocol {
            Protocol::Udp => false,
            Protocol::Sctp => self.sctp.borrow().close(flow),
            _ => self.connections.close(flow),
        }
    }

    /// Closes connections and associations, some of which may have ended already.
    pub(super) fn close_all(&self, flows: &[Flow]) {
        for flow in flows {
            self.close(flow);
        }
    }

    /// Sends messages, and returns those that could not be sent. `domain` returns the name that led to a TLS
    /// peer.
    pub(super) fn send(&self, out: &Outbox, domain: impl Fn(&Flow) -> Option<String>) -> Unsent {
        let has_datagrams = out.iter().any(|(item, _)| item.flow.protocol == Protocol::Udp);
        if let (true, Some(udp)) = (has_datagrams, self.udp.borrow().as_ref()) {
            udp.send(out);
        }
        let mut unsent = Unsent::default();
        let mail = self.mail.borrow();
        for (item, bytes) in out.iter() {
            let (flow, client) = (item.flow, item.client);
            let other = mail.as_ref().and_then(|mail| Some((mail, mail.other(&flow)?)));
            let is_sent = match (other, flow.protocol) {
                (Some((mail, worker)), _) => {
                    mail.post(worker, &Letter::Send { from: mail.own(), flow, client, bytes })
                }
                (None, Protocol::Udp) => true,
                (None, Protocol::Sctp) => self.sctp.borrow().send(flow, client, bytes),
                (None, Protocol::Tcp | Protocol::Tls | Protocol::Ws | Protocol::Wss) => {
                    self.connections.queue(self.aliased(flow, &domain), client, bytes)
                }
            };
            if !is_sent {
                unsent.note(flow, client, bytes);
            }
        }
        self.connections.flush();
        if let Some(mail) = mail.as_ref() {
            mail.flush();
        }
        unsent
    }

    /// Replaces the flow of a request by the connection that the neighbour has opened for it (RFC 5923).
    fn aliased(&self, flow: Flow, domain: impl Fn(&Flow) -> Option<String>) -> Flow {
        let aliases = self.connections.aliases.borrow();
        if flow.connection != 0 || flow.protocol != Protocol::Tls || aliases.is_empty() {
            return flow;
        }
        let found = domain(&flow).and_then(|domain| aliases.find(flow.peer, &domain));
        found.map_or(flow, |connection| Flow { connection, ..flow })
    }

    /// Sends a message of another worker over a connection of this one, and reports a failure to it.
    pub(super) fn send_for(&self, mail: &Mail, from: u8, flow: Flow, client: Option<ClientId>, bytes: &[u8]) {
        let is_sent = flow.connection != 0
            && match flow.protocol {
                Protocol::Udp => false,
                Protocol::Sctp => self.sctp.borrow().send(flow, None, bytes),
                _ => self.connections.queue(flow, None, bytes),
            };
        match client {
            Some(_) if is_sent => mail.uses(flow.connection, from),
            Some(client) => {
                mail.post(from, &Letter::Failed { client });
            }
            None if !is_sent && is_response(bytes) => {
                mail.post(from, &Letter::Unsent { flow, bytes });
            }
            None => {}
        }
    }
}
