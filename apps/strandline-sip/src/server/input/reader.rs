//! The common parts of all readers of connections: the read buffer, the framer, and closing.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::codec::{Cut, Side, StreamFramer};
use crate::server::hub::Hub;
use crate::server::socket::{Connection, FIRST};
use crate::transaction::Flow;

use super::framer::{End, Framer};

/// Size of the read buffer that all connections of a shard share, in bytes.
const READ: usize = 256 << 10;
/// How long a message may take to arrive completely. A slower sender occupies memory for nothing.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

thread_local! {
    static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// Closes a connection. Responses to its pending requests are still sent if the peer reads them.
pub(super) async fn end(hub: Rc<Hub>, connection: Rc<Connection>, reader: impl Framer) {
    hub.transports.connections.closes(&connection);
    hub.intake.wait_until_handled().await;
    ended(&hub, &connection, reader);
}

pub(super) fn ended(hub: &Rc<Hub>, connection: &Connection, reader: impl Framer) {
    reader.end(hub);
    gone(hub, connection);
}

/// Removes a connection that can't be used any more.
pub(super) fn gone(hub: &Rc<Hub>, connection: &Connection) {
    hub.transports.connections.remove(connection);
    hub.with(|service, _| service.connection_closed(connection.id));
    connection.ended();
}

/// Lends the read buffer that all connections of a shard share.
pub(super) fn with_room<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    ROOM.with_borrow_mut(|room| work(room))
}

/// Splits the bytes of a connection into messages. Only the bytes of an incomplete message are kept.
pub(super) struct Reader {
    connection: Rc<Connection>,
    flow: Flow,
    framer: StreamFramer,
    begun: Vec<u8>,
    /// How many more messages count as the first ones of the connection.
    first_left: u8,
    /// The error that ended the stream, and the bytes from there.
    broken: Option<(crate::codec::Error, Box<[u8]>)>,
}

impl Reader {
    pub(super) fn new(hub: &Hub, connection: &Rc<Connection>, side: Side) -> Self {
        let limits = hub.service.borrow().setup().message_limits();
        let flow = connection.flow();
        Self {
            connection: Rc::clone(connection),
            flow,
            framer: StreamFramer::new(side, limits),
            begun: Vec::new(),
            first_left: FIRST,
            broken: None,
        }
    }

    /// Takes all complete messages, and returns their total length.
    fn cut(&mut self, hub: &Rc<Hub>, bytes: &[u8]) -> Result<usize, End> {
        let (mut used, mut result, mut pings) = (0, Ok(()), 0);
        let (flow, framer) = (self.flow, &mut self.framer);
        hub.take_in(|taking| {
            loop {
                let rest = bytes.get(used..).unwrap_or(&[]);
                match framer.cut(rest) {
                    Ok(Cut::Incomplete) => break,
                    Ok(Cut::Message { len }) => {
                        let message = rest.get(..len).unwrap_or(&[]);
                        self.connection.life.on_message();
                        match self.first_left.checked_sub(1) {
                            Some(left) => {
                                self.first_left = left;
                                taking.push_first(flow, message);
                            }
                            None => taking.push_copy(flow, message),
                        }
                        used += len;
                    }
                    Ok(Cut::Ping { len }) => {
                        pings += 1;
                        used += len;
                    }
                    Ok(Cut::Pong { len } | Cut::Blank { len }) => used += len,
                    Err(error) => {
                        self.broken = Some((error, rest.into()));
                        result = Err(End);
                        break;
                    }
                }
            }
        });
        if pings > 0 {
            hub.with(|service, _| {
                (0..pings).for_each(|_| service.output_mut().out.push(flow, None, b"\r\n"))
            });
        }
        result.map(|()| used)
    }
}

impl Framer for Reader {
    fn is_waiting(&self) -> bool {
        !self.begun.is_empty()
    }

    fn begin(&mut self, _: &Rc<Hub>) -> Result<(), End> {
        if self.broken.is_some() { Err(End) } else { Ok(()) }
    }

    /// Takes bytes that were read. Returns an error if the stream can't be framed any more.
    fn take(&mut self, hub: &Rc<Hub>, read: &[u8]) -> Result<(), End> {
        self.connection.life.on_sign();
        if self.begun.is_empty() {
            let used = self.cut(hub, read)?;
            self.begun.extend_from_slice(read.get(used..).unwrap_or(&[]));
            self.connection.keeps(self.begun.capacity());
            return Ok(());
        }
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(read);
        let used = self.cut(hub, &all)?;
        if used == 0 {
            self.begun = all;
        } else {
            self.begun.extend_from_slice(all.get(used..).unwrap_or(&[]));
        }
        self.connection.keeps(self.begun.capacity());
        Ok(())
    }

    /// The bytes that broke the framing may still be a request that can be answered.
    fn end(self, hub: &Rc<Hub>) {
        if let Some((error, rest)) = self.broken {
            hub.with(|service, now| service.handle_unframed(now, self.flow, &rest, error));
        }
    }
}
