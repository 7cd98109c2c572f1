//! Newly accepted connections. Many carry one request only: the client sends it at once, and closes the
//! connection once it has the response. Registering each with epoll and a task, only to undo that a moment
//! later, would take a quarter of the time that serving them takes. So a connection whose first message was
//! already there is left unregistered for a few milliseconds. By then it has ended, or it is one that stays.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::codec::Side;
use crate::server::hub::Hub;
use crate::server::socket::Connection;
use crate::transaction::Protocol;

use super::epoll_set::Set;
use super::framer::{End, Framer};
use super::reader::{Reader, end, ended, with_room};
use super::work::work_between;

/// How long a new connection stays unregistered; a message that arrives meanwhile is delayed by up to this
/// time.
const ALONE: Duration = Duration::from_millis(5);
/// Maximum number of connections without a message that are kept for a second look.
const EMPTY_MAX: usize = 64;

/// An accepted connection and its framer.
type Young = (Rc<Connection>, Reader);

/// An unregistered connection.
struct Alone {
    /// The time at which it is looked at again.
    until: Duration,
    /// The number of its last message in the inbox.
    message: u64,
    young: Young,
    /// True if it could not be registered before.
    has_failed: bool,
}

/// The new connections of a listening socket.
pub(super) struct Fresh {
    /// Unregistered connections, in the order in which they are looked at.
    alone: RefCell<VecDeque<Alone>>,
    /// Connections from which nothing had arrived when they were accepted.
    empty: RefCell<Vec<Young>>,
    came: Notify,
    /// Takes the connections that stay.
    set: Rc<Set>,
}

/// The result of reading from a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// Whole messages only.
    Messages,
    Nothing,
    /// An incomplete message.
    More,
    /// Bytes that are not SIP.
    Nonsense,
    End,
}

impl Fresh {
    /// Starts looking after unregistered connections, until the task that accepts them ends.
    pub(super) fn start(hub: &Rc<Hub>, set: Rc<Set>) -> Rc<Self> {
        let (alone, empty) = Default::default();
        let fresh = Rc::new(Self { alone, empty, came: Notify::new(), set });
        tokio::task::spawn_local(watch(Rc::clone(&fresh), Rc::clone(hub)));
        fresh
    }

    /// Takes an accepted connection.
    pub(super) fn begin(&self, stream: TcpStream, peer: SocketAddr, hub: &Rc<Hub>) {
        let connection = hub.transports.connections.add(Protocol::Tcp, peer);
        connection.accepted(stream);
        hub.service.borrow_mut().connection_opened(connection.id);
        let mut reader = Reader::new(hub, &connection, Side::Accepted);
        match look(&connection, &mut reader, hub) {
            Found::Nothing if self.empty.borrow().len() < EMPTY_MAX => {
                self.empty.borrow_mut().push((connection, reader));
            }
            found => self.go_on(found, (connection, reader), hub),
        }
        work_between(hub);
    }

    /// Looks again at connections that had sent nothing. Most have by now, after the last accept of a batch.
    pub(super) fn look_again(&self, hub: &Rc<Hub>) {
        let empty = &mut *self.empty.borrow_mut();
        for (connection, mut reader) in empty.drain(..) {
            let found = look(&connection, &mut reader, hub);
            self.go_on(found, (connection, reader), hub);
        }
    }

    fn go_on(&self, found: Found, young: Young, hub: &Rc<Hub>) {
        if found == Found::Messages {
            self.leave_alone(young, false, hub);
        } else {
            self.settle(found, u64::MAX, young, false, hub);
        }
    }

    fn leave_alone(&self, young: Young, has_failed: bool, hub: &Hub) {
        let mut alone = self.alone.borrow_mut();
        if alone.is_empty() {
            self.came.notify_one();
        }
        let (until, message) = (hub.clock.elapsed() + ALONE, hub.intake.inbox(|inbox| inbox.last()));
        alone.push_back(Alone { until, message, young, has_failed });
    }

    /// Closes a connection that has ended or sent nonsense, or registers it with the set. If that fails, it is tried
    /// once more, when strangers have made way. `message` is the number of its last message.
    fn settle(&self, found: Found, message: u64, young: Young, has_failed: bool, hub: &Rc<Hub>) {
        let (connection, reader) = young;
        if matches!(found, Found::End | Found::Nonsense) {
            return close(message, connection, reader, hub);
        }
        match self.set.add(Rc::clone(&connection), reader, hub) {
            None => {}
            Some(reader) if has_failed => close(u64::MAX, connection, reader, hub),
            Some(reader) => self.leave_alone((connection, reader), true, hub),
        }
    }
}

/// Looks at unregistered connections when their time is up.
async fn watch(fresh: Rc<Fresh>, hub: Rc<Hub>) {
    loop {
        let first = fresh.alone.borrow().front().map(|alone| alone.until);
        let Some(until) = first else {
            fresh.came.notified().await;
            continue;
        };
        let now = hub.clock.elapsed();
        if until > now {
            tokio::time::sleep(until - now).await;
            continue;
        }
        let Some(Alone { message, young: (connection, mut reader), has_failed, .. }) =
            fresh.alone.borrow_mut().pop_front()
        else {
            continue;
        };
        let found = look(&connection, &mut reader, &hub);
        fresh.settle(found, message, (connection, reader), has_failed, &hub);
    }
}

/// Reads what has arrived.
fn look(connection: &Connection, reader: &mut Reader, hub: &Rc<Hub>) -> Found {
    with_room(|room| match connection.read_bare(room) {
        Ok(0) => Found::End,
        Ok(len) => match reader.take(hub, room.get(..len).unwrap_or(&[])) {
            Ok(()) if !reader.is_waiting() && len < room.len() => Found::Messages,
            Ok(()) => Found::More,
            Err(End) => Found::Nonsense,
        },
        Err(error) if error.kind() == ErrorKind::WouldBlock => Found::Nothing,
        Err(_) => Found::End,
    })
}

/// Closes a connection, once its last message in the inbox, of this number, has been handled.
fn close(message: u64, connection: Rc<Connection>, reader: Reader, hub: &Rc<Hub>) {
    if hub.intake.inbox(|inbox| inbox.is_done_with(message)) {
        ended(hub, &connection, reader);
    } else {
        tokio::task::spawn_local(end(Rc::clone(hub), connection, reader));
    }
}

#[cfg(test)]
mod tests;
