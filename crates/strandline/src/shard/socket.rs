//! The sockets bound to SCTP ports: listeners and one-to-many endpoints.

use std::collections::{HashMap, VecDeque};

use strandline_proto::event::AssociationId;

use crate::notification::{Notification, NotificationQueue};
use crate::wait::Takers;

/// The kind of socket to bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A one-to-one listener with its backlog.
    Listener { backlog: usize },
    /// A one-to-many endpoint.
    Many,
}

/// A one-to-one listener.
#[derive(Debug)]
pub(crate) struct ListenerState {
    pub(crate) backlog: usize,
    /// Associations that are established and not accepted yet.
    pub(crate) queue: VecDeque<AssociationId>,
    pub(crate) waiters: Takers,
    /// Associations refused because the backlog was full.
    pub(crate) refused: u64,
    /// No new associations are taken.
    pub(crate) stopped: bool,
}

/// A one-to-many endpoint.
#[derive(Debug, Default)]
pub(crate) struct ManyState {
    /// Associations with messages to read.
    pub(crate) ready: VecDeque<AssociationId>,
    /// Number of messages read in a row from the first association.
    pub(crate) turn: u32,
    pub(crate) read: Takers,
    /// Notifications, if the application asked for them.
    pub(crate) notifications: Option<NotificationQueue<(AssociationId, Notification)>>,
    pub(crate) phase: Phase,
}

/// Which new associations a one-to-many endpoint takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// All: its own and those that peers set up.
    #[default]
    Open,
    /// Only those that it sets up itself.
    Stopped,
    /// None.
    ShuttingDown,
}

#[derive(Debug)]
pub(crate) enum Socket {
    Listener(ListenerState),
    Many(ManyState),
    /// A one-to-many endpoint that was dropped and whose associations are being shut down.
    Closing,
}

/// The sockets of a shard by index, and by SCTP port.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    by_index: Vec<Option<(u16, Socket)>>,
    free: Vec<u32>,
    by_port: HashMap<u16, u32>,
}

impl Sockets {
    pub(crate) fn insert(&mut self, port: u16, socket: Socket) -> u32 {
        let index = self.free.pop().unwrap_or(self.by_index.len() as u32);
        match self.by_index.get_mut(index as usize) {
            Some(place) => *place = Some((port, socket)),
            None => self.by_index.push(Some((port, socket))),
        }
        self.by_port.insert(port, index);
        index
    }

    /// Closes a one-to-many endpoint; its index stays in use until `remove`.
    pub(crate) fn close_many(&mut self, index: u32) -> Option<u16> {
        let (port, socket) = self.by_index.get_mut(index as usize)?.as_mut()?;
        *socket = Socket::Closing;
        // The port may belong to another socket since this one stopped accepting.
        if self.by_port.get(port) == Some(&index) {
            self.by_port.remove(port);
        }
        Some(*port)
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<(u16, Socket)> {
        let (port, socket) = self.by_index.get_mut(index as usize)?.take()?;
        if self.by_port.get(&port) == Some(&index) {
            self.by_port.remove(&port);
        }
        self.free.push(index);
        Some((port, socket))
    }

    /// Releases the port, so that others can bind it, and returns it.
    pub(crate) fn leave_port(&mut self, index: u32) -> Option<u16> {
        let (port, _) = self.by_index.get(index as usize)?.as_ref()?;
        if self.by_port.get(port) == Some(&index) {
            self.by_port.remove(port);
        }
        Some(*port)
    }

    /// Returns the socket bound to a port.
    pub(crate) fn on_port(&mut self, port: u16) -> Option<(u32, &mut Socket)> {
        let index = *self.by_port.get(&port)?;
        let (_, socket) = self.by_index.get_mut(index as usize)?.as_mut()?;
        Some((index, socket))
    }

    pub(crate) fn listener(&mut self, index: u32) -> Option<&mut ListenerState> {
        match self.by_index.get_mut(index as usize)? {
            Some((_, Socket::Listener(listener))) => Some(listener),
            _ => None,
        }
    }

    pub(crate) fn many(&mut self, index: u32) -> Option<&mut ManyState> {
        match self.by_index.get_mut(index as usize)? {
            Some((_, Socket::Many(many))) => Some(many),
            _ => None,
        }
    }

    pub(crate) fn all(&mut self) -> impl Iterator<Item = &mut Socket> {
        self.by_index.iter_mut().flatten().map(|(_, socket)| socket)
    }
}
