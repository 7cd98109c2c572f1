//! Established TCP connections without TLS and WebSocket, which one task waits for and reads. With a task for
//! each, every message would touch five more places in memory, which are not in the cache when there are many
//! connections.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use strandline_tls::{LogLimit, is_exhausted};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use crate::server::hub::Hub;
use crate::server::socket::{Begun, Connection};

use super::framer::Framer;
use super::reader::{Reader, TIMEOUT, end, ended, with_room};
use super::work::work_between;

/// Maximum number of events taken at a time.
const EVENTS: usize = 256;
/// Maximum number of reads from one connection before others have their turn.
const READS_MAX: usize = 4;
/// How often to check for messages that take too long to arrive.
const LOOK: Duration = Duration::from_secs(1);
/// How long descriptors, memory or watches count as exhausted after none was left.
const SHORTAGE: Duration = Duration::from_secs(1);
/// The flags that report the end of the stream or of the connection.
const OVER: epoll::EventFlags =
    epoll::EventFlags::RDHUP.union(epoll::EventFlags::HUP).union(epoll::EventFlags::ERR);

/// A connection of the set.
struct Member {
    connection: Rc<Connection>,
    reader: Reader,
    /// Since when a message has been incomplete, if any.
    begun: Begun,
    /// True if the connection is in the list of those with an incomplete message.
    listed: bool,
}

/// A slot for a connection.
#[derive(Default)]
struct Place {
    /// The number of earlier uses; events for an earlier connection are ignored.
    generation: u32,
    /// The connection; absent while it is being read.
    member: Option<Box<Member>>,
}

/// The result of reading from a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Became {
    /// Everything was read.
    Read,
    /// More may be available, but other connections have their turn.
    More,
    Over,
}

/// Has epoll watch a stream. Tests replace it, as they can't use up the memory or the watches of the system.
pub(super) type Watch =
    fn(&OwnedFd, &TcpStream, epoll::EventData, epoll::EventFlags) -> rustix::io::Result<()>;

/// The set of connections.
pub(in crate::server) struct Set {
    epoll: AsyncFd<OwnedFd>,
    watch: Watch,
    places: RefCell<Vec<Place>>,
    free: RefCell<Vec<u32>>,
    /// The slots and generations of connections that have an incomplete message, or had one at the last
    /// check.
    begun: RefCell<Vec<(u32, u32)>>,
    /// Notified when that list becomes non-empty.
    begins: Notify,
    /// When descriptors, memory or watches were exhausted last.
    short_since: Cell<Option<Duration>>,
    /// Limits the log lines about connections that could not be added.
    failures: RefCell<LogLimit>,
}

impl Set {
    /// # Errors
    /// Returns an error if the system has no more descriptors.
    pub(in crate::server) fn new() -> io::Result<Rc<Self>> {
        Self::watching_by(|epoll, stream, mark, flags| epoll::add(epoll, stream, mark, flags))
    }

    pub(super) fn watching_by(watch: Watch) -> io::Result<Rc<Self>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        #[allow(
            deprecated,
            reason = "what is registered owns its descriptor, which is what `register` has to be promised"
        )]
        let epoll = AsyncFd::new(epoll)?;
        let (places, free, begun, short_since, failures) = Default::default();
        let begins = Notify::new();
        Ok(Rc::new(Self { epoll, watch, places, free, begun, begins, short_since, failures }))
    }

    /// Adds a connection. Bytes that have already arrived are read too.
    ///
    /// Returns the reader if epoll can't watch the connection. If memory or watches are exhausted, connections of
    /// strangers are being closed then, and a later attempt may succeed.
    #[must_use]
    pub(super) fn add(&self, connection: Rc<Connection>, reader: Reader, hub: &Hub) -> Option<Reader> {
        let mut places = self.places.borrow_mut();
        let number = self.free.borrow_mut().pop().unwrap_or_else(|| {
            places.push(Place::default());
            (places.len() - 1) as u32
        });
        let place = places.get_mut(number as usize)?;
        let mark = epoll::EventData::new_u64((u64::from(place.generation) << 32) | u64::from(number));
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        let watched = connection.watched(|stream| (self.watch)(self.epoll.get_ref(), stream, mark, flags));
        if let Err(error) = watched {
            self.free.borrow_mut().push(number);
            self.on_failure(&error.into(), hub);
            return Some(reader);
        }
        let mut member = Box::new(Member { connection, reader, begun: Begun::default(), listed: false });
        self.note(&mut member, number, place.generation, hub);
        place.member = Some(member);
        None
    }

    /// Logs that a connection could not be added, unless a line was logged lately, and lets strangers make way.
    fn on_failure(&self, error: &io::Error, hub: &Hub) {
        if let Some(unlogged) = self.failures.borrow_mut().log() {
            tracing::warn!(%error, unlogged, "adding a connection to epoll failed");
        }
        if is_exhausted(error) {
            self.note_shortage(hub);
            hub.shed_strangers();
        }
    }

    /// Records that descriptors, memory or watches are exhausted.
    pub(super) fn note_shortage(&self, hub: &Hub) {
        self.short_since.set(Some(hub.clock.elapsed()));
    }

    /// Whether descriptors, memory or watches were exhausted a moment ago.
    pub(super) fn is_short(&self, hub: &Hub) -> bool {
        self.short_since.get().is_some_and(|at| hub.clock.elapsed().saturating_sub(at) < SHORTAGE)
    }

    /// Handles an event: input, room for output, or the end. Returns true if the connection must be looked at
    /// again.
    fn on_event(&self, mark: u64, flags: epoll::EventFlags, hub: &Rc<Hub>) -> bool {
        let (number, generation) = (mark as u32, (mark >> 32) as u32);
        let Some(mut member) = self.take(number, generation) else { return false };
        if flags.contains(epoll::EventFlags::OUT) {
            hub.transports.connections.has_room_again(&member.connection);
        }
        let became = member.read(hub, flags.intersects(OVER));
        if became == Became::Over {
            self.forget(number, *member, hub);
            return false;
        }
        self.note(&mut member, number, generation, hub);
        if let Some(place) = self.places.borrow_mut().get_mut(number as usize) {
            place.member = Some(member);
        }
        became == Became::More
    }

    /// Records whether the connection has an incomplete message.
    fn note(&self, member: &mut Member, number: u32, generation: u32, hub: &Hub) {
        let waits = member.reader.is_waiting();
        let now = if waits { hub.clock.elapsed() } else { Duration::ZERO };
        if member.begun.look(now, &member.connection.life, waits).is_none() {
            // The next check removes it from the list.
            return;
        }
        if !std::mem::replace(&mut member.listed, true) {
            self.begun.borrow_mut().push((number, generation));
            self.begins.notify_one();
        }
    }

    fn take(&self, number: u32, generation: u32) -> Option<Box<Member>> {
        let mut places = self.places.borrow_mut();
        places.get_mut(number as usize).filter(|place| place.generation == generation)?.member.take()
    }

    /// Removes a connection that has ended. Responses to its pending requests are still sent if the peer
    /// reads them.
    fn forget(&self, number: u32, Member { connection, reader, .. }: Member, hub: &Rc<Hub>) {
        if let Some(place) = self.places.borrow_mut().get_mut(number as usize) {
            place.generation = place.generation.wrapping_add(1);
            self.free.borrow_mut().push(number);
        }
        if hub.intake.inbox(|inbox| inbox.is_empty()) {
            ended(hub, &connection, reader);
        } else {
            tokio::task::spawn_local(end(Rc::clone(hub), connection, reader));
        }
    }

    /// Closes connections whose message takes too long. A message must be completed in time, but there is no
    /// time limit between messages.
    fn end_slow(&self, hub: &Rc<Hub>) {
        let now = hub.clock.elapsed();
        let mut slow = Vec::new();
        self.begun.borrow_mut().retain(|&(number, generation)| {
            let mut places = self.places.borrow_mut();
            let place = places.get_mut(number as usize).filter(|place| place.generation == generation);
            let Some(member) = place.and_then(|place| place.member.as_mut()) else { return false };
            let since = member.begun.since();
            member.listed = since.is_some();
            if since.is_some_and(|since| now.saturating_sub(since) >= TIMEOUT) {
                slow.push((number, generation));
            }
            member.listed
        });
        for (number, generation) in slow {
            if let Some(member) = self.take(number, generation) {
                self.forget(number, *member, hub);
            }
        }
    }
}

impl Member {
    /// Reads what has arrived. If `over` is set, it reads up to the end.
    fn read(&mut self, hub: &Rc<Hub>, over: bool) -> Became {
        with_room(|room| {
            for _ in 0..READS_MAX {
                match self.connection.read_bare(room) {
                    Ok(0) => return Became::Over,
                    Ok(len) if self.reader.take(hub, room.get(..len).unwrap_or(&[])).is_err() => {
                        return Became::Over;
                    }
                    // The buffer was not filled, so nothing more is available, and epoll will report more.
                    Ok(len) if len < room.len() && !over => return Became::Read,
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Became::Read,
                    Err(_) => return Became::Over,
                }
            }
            Became::More
        })
    }
}

/// Reads from the connections, until the task is ended.
pub(in crate::server) async fn serve(set: Rc<Set>, hub: Rc<Hub>) {
    let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
    let mut again: Vec<(u64, epoll::EventFlags)> = Vec::new();
    loop {
        let Ok(mut ready) = set.epoll.readable().await else { return };
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(set.epoll.get_ref(), spare_capacity(&mut events), Some(&none)) {
            Ok(EVENTS..) => {}
            Ok(_) if again.is_empty() => ready.clear_ready(),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::error!(%error, "epoll_wait failed");
                return;
            }
        }
        let more = std::mem::take(&mut again);
        let came = events.drain(..).map(|event| {
            let (data, flags) = (event.data, event.flags);
            (data.u64(), flags)
        });
        for (mark, flags) in more.into_iter().chain(came) {
            if set.on_event(mark, flags, &hub) {
                again.push((mark, flags));
            }
            work_between(&hub);
        }
        if !again.is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

/// Checks for messages that take too long, as long as any is incomplete, until the task is ended.
pub(in crate::server) async fn end_slow(set: Rc<Set>, hub: Rc<Hub>) {
    loop {
        if set.begun.borrow().is_empty() {
            set.begins.notified().await;
        }
        tokio::time::sleep(LOOK).await;
        set.end_slow(&hub);
    }
}
