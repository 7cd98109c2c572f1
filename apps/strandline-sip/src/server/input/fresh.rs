//! Connections that were just accepted. Many are for one request only: their client sends it at once, and closes when it has
//! the answer. To have the system watch each, and a task wait for it, only to undo all that a moment later, would take a quarter of
//! what serving them does. So one whose first message was there already is left alone for a few milliseconds: then it has ended, or
//! it is one that stays.

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

use super::reader::{Reader, end, ended, gone, with_room};
use super::set::Set;
use super::taker::{End, Taker};
use super::work::work_between;

/// How long nobody waits for a connection: what comes on it meanwhile waits for so long.
const ALONE: Duration = Duration::from_millis(5);
/// Connections without a message that are kept for the second look.
const EMPTY_MAX: usize = 64;

/// One that was accepted, and what cuts its messages.
type Young = (Rc<Connection>, Reader);

/// One that is left alone.
struct Alone {
    /// So long.
    until: Duration,
    /// Its last message, as the inbox counts.
    message: u64,
    young: Young,
}

/// Those of a listening socket.
pub(super) struct Fresh {
    /// In the order in which they are looked at.
    alone: RefCell<VecDeque<Alone>>,
    /// Nothing had come on these when they were accepted.
    empty: RefCell<Vec<Young>>,
    came: Notify,
    /// Who takes those that stay.
    set: Rc<Set>,
}

/// What a look at a connection found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// Whole messages, and nothing else.
    Messages,
    Nothing,
    /// Part of a message.
    More,
    /// What makes no sense.
    Nonsense,
    End,
}

impl Fresh {
    /// Those that are left alone are looked at until the task that accepts is gone.
    pub(super) fn start(hub: &Rc<Hub>, set: Rc<Set>) -> Rc<Self> {
        let (alone, empty) = Default::default();
        let fresh = Rc::new(Self { alone, empty, came: Notify::new(), set });
        tokio::task::spawn_local(watch(Rc::clone(&fresh), Rc::clone(hub)));
        fresh
    }

    /// A connection was accepted.
    pub(super) fn begin(&self, stream: TcpStream, peer: SocketAddr, hub: &Rc<Hub>) {
        let connection = hub.connections.add(Protocol::Tcp, peer);
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

    /// No more are to be accepted now: what had sent nothing yet mostly has by now.
    pub(super) fn look_again(&self, hub: &Rc<Hub>) {
        let empty = &mut *self.empty.borrow_mut();
        for (connection, mut reader) in empty.drain(..) {
            let found = look(&connection, &mut reader, hub);
            self.go_on(found, (connection, reader), hub);
        }
    }

    fn go_on(&self, found: Found, young: Young, hub: &Rc<Hub>) {
        if found == Found::Messages {
            let mut alone = self.alone.borrow_mut();
            if alone.is_empty() {
                self.came.notify_one();
            }
            let (until, message) = (hub.clock.elapsed() + ALONE, hub.inbox(|inbox| inbox.last()));
            alone.push_back(Alone { until, message, young });
        } else {
            settle(found, u64::MAX, young, hub, &self.set);
        }
    }
}

/// Looks at those that were left alone for long enough.
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
        let Some(Alone { message, young: (connection, mut reader), .. }) =
            fresh.alone.borrow_mut().pop_front()
        else {
            continue;
        };
        let found = look(&connection, &mut reader, &hub);
        settle(found, message, (connection, reader), &hub, &fresh.set);
    }
}

/// Takes what is there.
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

/// It has ended, or is ended because what came makes no sense; or from now on it is waited for. `message` is its last one.
fn settle(found: Found, message: u64, (connection, reader): Young, hub: &Rc<Hub>, set: &Set) {
    if matches!(found, Found::End | Found::Nonsense) {
        if hub.inbox(|inbox| inbox.is_done_with(message)) {
            ended(hub, &connection, reader);
        } else {
            tokio::task::spawn_local(end(Rc::clone(hub), connection, reader));
        }
        return;
    }
    if let Err(error) = set.add(Rc::clone(&connection), reader, hub) {
        tracing::warn!(%error, "waiting for a connection");
        gone(hub, &connection);
    }
}
