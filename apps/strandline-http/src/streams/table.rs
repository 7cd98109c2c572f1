//! The connections on the streams of one association, without I/O.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use strandline::Ended;

use super::Settings;
use super::budget::{Counted, Held};
use super::connection::{Connection, Incoming, Outgoing, Windows};
use crate::control::{Control, Kind, Label};

/// Which side of an association this is. The client opens connections, and the server accepts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

/// What is known of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Nothing has arrived yet.
    Unknown,
    /// Its messages have no labels, and it doesn't know control messages.
    Plain,
    /// It knows control messages and takes this many bytes ahead on each stream.
    Labels { window: u64 },
}

/// How the peer breaks the protocol. The association is aborted with this reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) &'static str);

/// A message that arrived.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) stream: u16,
    pub(crate) ppid: u32,
    pub(crate) is_unordered: bool,
    /// Whether it is a whole message, not a part of one.
    pub(crate) is_whole: bool,
    pub(crate) data: Bytes,
}

/// A connection's identifier. It is never used again, unlike its stream.
pub(crate) type ConnectionId = u64;

/// The result of an attempt to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reading {
    Data(Bytes),
    Pending,
    /// The peer has closed the connection.
    End,
    /// The peer has reset the connection.
    Reset,
    /// This side has given the connection up, because what it held was not read.
    GivenUp,
    /// The association ended in mid-connection.
    Lost(Ended),
}

/// The result of an attempt to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Writing {
    /// This many bytes may be sent.
    Room(u64),
    Pending,
    /// This side has closed the connection, or the peer has given it up.
    Closed,
    Lost(Ended),
}

/// The connections of one association.
#[derive(Debug)]
pub(crate) struct Table {
    role: Role,
    settings: Settings,
    pub(crate) peer: Peer,
    connections: HashMap<ConnectionId, Connection>,
    current: HashMap<u16, ConnectionId>,
    /// Number of the next connection on each stream that has had one.
    numbers: HashMap<u16, u32>,
    /// Client: streams without a connection.
    free: BTreeSet<u16>,
    /// Client: number of streams known to exist.
    streams: u16,
    /// Streams on which a plain peer may still send data of a connection that this side has closed.
    silent: HashSet<u16>,
    next_id: ConnectionId,
    held: Held,
    windows: Windows,
    /// Bytes that the peer may send on all connections beyond those that were read.
    ahead: u64,
    controls: VecDeque<(u16, Control)>,
    accepted: VecDeque<ConnectionId>,
    /// Whether a connection with a plain peer has failed in a way that the peer can't see.
    has_failed: bool,
    pub(crate) is_closing: bool,
    /// Client: whether the peer has been silent for some time.
    pub(crate) is_suspect: bool,
    pub(crate) ended: Option<Ended>,
    to_wake: Vec<Waker>,
}

impl Table {
    pub(crate) fn new(role: Role, settings: Settings) -> Self {
        let buffer = settings.buffer_max as u64;
        let windows = Windows {
            start: settings.window_start(),
            max: settings.window(),
            growth_max: buffer / 2,
            shrink_from: buffer / 4 * 3,
        };
        Self {
            role,
            held: Held::new(settings.budget.clone()),
            settings,
            windows,
            ahead: 0,
            peer: Peer::Unknown,
            connections: HashMap::new(),
            current: HashMap::new(),
            numbers: HashMap::new(),
            free: BTreeSet::new(),
            streams: 0,
            silent: HashSet::new(),
            next_id: 0,
            controls: VecDeque::new(),
            accepted: VecDeque::new(),
            has_failed: false,
            is_closing: false,
            is_suspect: false,
            ended: None,
            to_wake: Vec::new(),
        }
    }

    /// Takes the tasks that are to be woken, once the table is no longer locked.
    pub(crate) fn take_wakers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.to_wake)
    }

    /// Client: makes streams up to this number available.
    pub(crate) fn set_streams(&mut self, streams: u16) {
        self.free.extend(self.streams..streams);
        self.streams = self.streams.max(streams);
    }

    /// Returns whether no more messages may be taken from the association.
    pub(crate) fn is_full(&self) -> bool {
        self.held.is_full(self.settings.buffer_max)
    }

    /// Returns the connection whose data has waited longest, and since when, if others could go on without it.
    fn stalled(&self) -> Option<(ConnectionId, Duration)> {
        let is_alone = self.connections.len() < 2 && !self.settings.budget.is_full();
        let waiting = self.connections.iter().filter_map(|(id, of)| Some((*id, of.waiting_since()?)));
        waiting.min_by_key(|(_, since)| *since).filter(|_| !is_alone)
    }

    /// Returns since when the data has waited that has waited longest, if others could go on without it.
    pub(crate) fn stalled_since(&self) -> Option<Duration> {
        self.stalled().map(|(_, since)| since)
    }

    /// Gives up the connection whose data has waited longest, if that began by `since`. Its reader and its
    /// writer get an error, and the peer gets a RESET.
    pub(crate) fn give_up_stalled(&mut self, since: Duration) {
        let Some((id, begun)) = self.stalled() else { return };
        if begun <= since
            && let Some(connection) = self.connections.get_mut(&id)
        {
            connection.is_given_up = true;
            self.held.release(connection.discard());
            self.to_wake.extend(connection.reader.take());
            self.to_wake.extend(connection.writer.take());
            self.abandon(id);
        }
    }

    /// Returns whether a connection that isn't over is read and written.
    pub(crate) fn is_busy(&self) -> bool {
        self.connections.values().any(|connection| connection.has_handle && connection.is_current)
    }

    /// Returns the number of connections that have begun.
    pub(crate) const fn begun(&self) -> u64 {
        self.next_id
    }

    /// Returns whether the association is to be aborted, because a plain peer could take its SHUTDOWN for the
    /// end of a connection that failed.
    pub(crate) fn wants_abort(&self) -> bool {
        self.has_failed && self.current.is_empty()
    }

    /// Client: opens a connection on the lowest free stream, if there is one.
    pub(crate) fn open(&mut self) -> Option<(ConnectionId, u16)> {
        let stream = self.free.pop_first()?;
        Some((self.begin(stream, None), stream))
    }

    /// Client: returns whether no stream can ever become free.
    pub(crate) fn is_used_up(&self) -> bool {
        self.streams > 0 && self.free.is_empty() && self.current.is_empty()
    }

    /// Takes no more connections. Those that were not accepted yet are reset.
    pub(crate) fn close(&mut self) {
        self.is_closing = true;
        for id in std::mem::take(&mut self.accepted) {
            self.drop_handle(id);
        }
    }

    /// Server: takes the next connection that the peer has opened.
    pub(crate) fn accept(&mut self) -> Option<(ConnectionId, u16)> {
        let id = self.accepted.pop_front()?;
        Some((id, self.connections.get(&id)?.stream))
    }

    fn begin(&mut self, stream: u16, counted: Option<Counted>) -> ConnectionId {
        let id = self.next_id;
        self.next_id += 1;
        let number = self.numbers.get(&stream).copied().unwrap_or(0);
        let limit = match self.peer {
            Peer::Labels { window } => Some(window),
            _ => None,
        };
        let connection = Connection::new(stream, number, self.windows.start, limit, counted);
        self.ahead += connection.ahead();
        self.connections.insert(id, connection);
        self.current.insert(stream, id);
        id
    }

    /// Takes a message. Times count from any one moment.
    pub(crate) fn on_message(&mut self, message: Arrived, now: Duration) -> Result<(), Violation> {
        if message.is_unordered {
            return Err(Violation("HTTP needs ordered messages"));
        }
        let label = Label::parse(message.ppid);
        let is_first = self.peer == Peer::Unknown;
        match (self.peer, label) {
            (Peer::Unknown, Some(label)) => self.peer = Peer::Labels { window: label.window() },
            (Peer::Unknown, None) => self.peer = Peer::Plain,
            (Peer::Plain, None) | (Peer::Labels { .. }, Some(_)) => {}
            _ => return Err(Violation("messages with and without HTTP labels")),
        }
        let stream = message.stream;
        let handled = match label {
            Some(label) if label.is_control => {
                let control = Control::parse(&message.data).filter(|_| message.is_whole);
                self.on_control(stream, control.ok_or(Violation("malformed control message"))?)
            }
            _ => self.on_data(stream, message.data, now),
        };
        if is_first {
            self.on_peer_known(stream);
        }
        handled
    }

    /// Does what had to wait until it was known whether the peer knows control messages.
    fn on_peer_known(&mut self, stream: u16) {
        let mut streams: Vec<u16> = self.current.keys().copied().collect();
        streams.sort_unstable();
        for stream in streams {
            let Some(connection) = current(&self.current, &mut self.connections, stream) else { continue };
            match self.peer {
                Peer::Labels { window } => {
                    connection.limit = connection.limit.or(Some(window));
                    match connection.outgoing {
                        Outgoing::Ending => self.queue(stream, Kind::End),
                        Outgoing::Resetting => self.queue(stream, Kind::Reset),
                        _ => {}
                    }
                }
                _ if !connection.has_handle => self.fall_silent(stream),
                _ => {}
            }
        }
        // A client learns by this message that it may send control messages, and how much it may send ahead.
        if self.role == Role::Server
            && matches!(self.peer, Peer::Labels { .. })
            && let Some(connection) = current(&self.current, &mut self.connections, stream)
        {
            let granted = connection.granted();
            self.queue(stream, Kind::Credit(granted));
        }
    }

    fn on_data(&mut self, stream: u16, data: Bytes, now: Duration) -> Result<(), Violation> {
        if self.silent.contains(&stream) {
            return Ok(());
        }
        if !self.current.contains_key(&stream) {
            if self.role == Role::Client {
                return Err(Violation("a response on a stream without a request"));
            }
            let is_refused = self.is_closing || self.current.len() >= self.settings.connections_max;
            let counted = self.settings.budget.connection().filter(|_| !is_refused);
            let is_refused = counted.is_none();
            let id = self.begin(stream, counted);
            if is_refused {
                self.drop_handle(id);
                return Ok(());
            }
            self.accepted.push_back(id);
        }
        let Some(connection) = current(&self.current, &mut self.connections, stream) else { return Ok(()) };
        if connection.incoming != Incoming::Open {
            return Err(Violation("data after the end of a connection"));
        }
        if connection.has_handle && !connection.is_given_up {
            self.held.add(connection.push(data, now));
            self.to_wake.extend(connection.reader.take());
        }
        Ok(())
    }

    fn on_control(&mut self, stream: u16, control: Control) -> Result<(), Violation> {
        let Some(connection) = current(&self.current, &mut self.connections, stream) else { return Ok(()) };
        if connection.number != control.number {
            return Ok(());
        }
        match control.kind {
            Kind::End if connection.incoming == Incoming::Open => {
                connection.incoming = Incoming::Ended;
                self.to_wake.extend(connection.reader.take());
            }
            Kind::End => return Err(Violation("a second end of a connection")),
            Kind::Reset => {
                if connection.incoming == Incoming::Open {
                    connection.incoming = Incoming::Reset;
                }
                connection.is_stopped = true;
                self.to_wake.extend(connection.reader.take());
                self.to_wake.extend(connection.writer.take());
                if connection.outgoing == Outgoing::Open {
                    connection.outgoing = Outgoing::Resetting;
                    self.queue(stream, Kind::Reset);
                }
            }
            Kind::Credit(limit) => {
                connection.limit = connection.limit.max(Some(limit));
                self.to_wake.extend(connection.writer.take());
            }
        }
        self.finish(stream);
        Ok(())
    }

    /// Queues a control message, if the peer knows them.
    fn queue(&mut self, stream: u16, kind: Kind) {
        if let Peer::Labels { .. } = self.peer
            && let Some(connection) = current(&self.current, &mut self.connections, stream)
        {
            self.controls.push_back((stream, Control { kind, number: connection.number }));
        }
    }

    /// Returns whether a control message waits to be sent.
    pub(crate) fn has_controls(&self) -> bool {
        !self.controls.is_empty()
    }

    /// Takes the next control message to send. [`on_control_sent`](Self::on_control_sent) follows.
    pub(crate) fn pop_control(&mut self) -> Option<(u16, Control)> {
        let (stream, mut control) = self.controls.pop_front()?;
        if let Kind::Credit(limit) = &mut control.kind
            && let Some(connection) = current(&self.current, &mut self.connections, stream)
            && connection.number == control.number
        {
            *limit = connection.take_credit();
        }
        Some((stream, control))
    }

    /// Notes that a control message has been handed to the association.
    pub(crate) fn on_control_sent(&mut self, stream: u16, control: Control) {
        if let Some(connection) = current(&self.current, &mut self.connections, stream)
            && connection.number == control.number
            && matches!(control.kind, Kind::End | Kind::Reset)
        {
            connection.outgoing = Outgoing::Sent;
            self.finish(stream);
        }
    }

    /// Frees a stream whose connection is over on both sides.
    fn finish(&mut self, stream: u16) {
        if let Some(connection) = current(&self.current, &mut self.connections, stream)
            && connection.is_over()
        {
            let number = connection.number.wrapping_add(1);
            self.numbers.insert(stream, number);
            self.release(stream);
        }
    }

    /// Takes a stream from its connection, for the next one.
    fn release(&mut self, stream: u16) {
        let Some(id) = self.current.remove(&stream) else { return };
        if let Some(connection) = self.connections.get_mut(&id) {
            self.ahead -= connection.ahead();
            connection.is_current = false;
            if !connection.has_handle {
                self.connections.remove(&id);
            }
        }
        if self.role == Role::Client && !self.silent.contains(&stream) {
            self.free.insert(stream);
        }
    }

    /// Ends a connection with a peer that can't be told. The stream isn't used again.
    fn fall_silent(&mut self, stream: u16) {
        self.silent.insert(stream);
        self.release(stream);
    }

    /// Reads up to `most` bytes.
    pub(crate) fn read(&mut self, id: ConnectionId, most: usize, context: &mut Context<'_>) -> Reading {
        let Some(connection) = self.connections.get_mut(&id) else { return Reading::Reset };
        if connection.is_given_up {
            return Reading::GivenUp;
        }
        let before = connection.ahead();
        if let Some((data, counted)) = connection.pop(most) {
            self.held.release(counted);
            let others = self.ahead - before;
            let is_labelled = matches!(self.peer, Peer::Labels { .. });
            let needs_credit = connection.is_current
                && is_labelled
                && connection.needs_credit(&self.windows, others + connection.ahead());
            self.ahead = others + connection.ahead();
            let (stream, granted) = (connection.stream, connection.granted());
            if needs_credit {
                self.queue(stream, Kind::Credit(granted));
            }
            return Reading::Data(data);
        }
        match (connection.incoming, &self.ended) {
            // A client that reads nothing more wants no response.
            (Incoming::Ended, _) if self.role == Role::Server && connection.is_stopped => Reading::Reset,
            (Incoming::Ended, _) => {
                connection.reader = Some(context.waker().clone());
                Reading::End
            }
            (Incoming::Reset, _) => Reading::Reset,
            (Incoming::Open, Some(Ended::ShutDown)) if self.peer == Peer::Plain => Reading::End,
            (Incoming::Open, Some(ended)) => Reading::Lost(ended.clone()),
            (Incoming::Open, None) => {
                connection.reader = Some(context.waker().clone());
                Reading::Pending
            }
        }
    }

    /// Returns how much may be written.
    pub(crate) fn room(&mut self, id: ConnectionId, context: &mut Context<'_>) -> Writing {
        let Some(connection) = self.connections.get_mut(&id) else { return Writing::Closed };
        if connection.outgoing != Outgoing::Open || connection.is_stopped {
            return Writing::Closed;
        }
        if let Some(ended) = &self.ended {
            return Writing::Lost(ended.clone());
        }
        match connection.limit.unwrap_or(u64::MAX).saturating_sub(connection.sent) {
            0 => {
                connection.writer = Some(context.waker().clone());
                Writing::Pending
            }
            room => Writing::Room(room),
        }
    }

    /// Notes that bytes have been handed to the association.
    pub(crate) fn on_sent(&mut self, id: ConnectionId, bytes: usize) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.sent += bytes as u64;
        }
    }

    /// Ends the outgoing direction: everything has been written.
    pub(crate) fn end(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.outgoing == Outgoing::Open
        {
            connection.outgoing = Outgoing::Ending;
            let stream = connection.stream;
            self.queue(stream, Kind::End);
        }
    }

    /// Ends a connection whose handle is dropped. Unless both directions have ended, the peer gets a RESET.
    pub(crate) fn drop_handle(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.has_handle = false;
        self.held.release(connection.discard());
        if !connection.is_current {
            self.connections.remove(&id);
            return;
        }
        if connection.is_given_up {
            return;
        }
        let stream = connection.stream;
        if self.role == Role::Client && connection.is_unused() && connection.outgoing == Outgoing::Open {
            self.release(stream);
            return;
        }
        self.abandon(id);
    }

    /// Reads and writes nothing more on a connection. Unless both directions have ended, the peer gets a RESET.
    fn abandon(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id).filter(|connection| connection.is_current)
        else {
            return;
        };
        let stream = connection.stream;
        let has_written_all = connection.outgoing != Outgoing::Open;
        if !has_written_all {
            connection.outgoing = Outgoing::Resetting;
        }
        let is_peer_done = connection.incoming != Incoming::Open;
        match self.peer {
            // A RESET after END asks the peer to stop sending.
            Peer::Labels { .. } if !(has_written_all && is_peer_done) => self.queue(stream, Kind::Reset),
            Peer::Plain => {
                self.has_failed |= self.role == Role::Server && !has_written_all;
                self.fall_silent(stream);
            }
            Peer::Labels { .. } | Peer::Unknown => {}
        }
    }

    /// Notes the end of the association. The first one counts.
    pub(crate) fn on_ended(&mut self, ended: Ended) {
        self.ended.get_or_insert(ended);
        for id in std::mem::take(&mut self.accepted) {
            self.drop_handle(id);
        }
        for connection in self.connections.values_mut() {
            self.to_wake.extend(connection.reader.take());
            self.to_wake.extend(connection.writer.take());
        }
    }
}

/// Returns the connection that a stream has. A function of the two fields, so that the others stay free.
fn current<'a>(
    current: &HashMap<u16, ConnectionId>,
    connections: &'a mut HashMap<ConnectionId, Connection>,
    stream: u16,
) -> Option<&'a mut Connection> {
    connections.get_mut(current.get(&stream)?)
}

#[cfg(test)]
mod tests;
