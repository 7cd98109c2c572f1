//! TCP connections that stay, without TLS and WebSocket: one set, which one task waits for and reads. To wake a task for each
//! would touch five more places in memory for each message, which are cold in the caches when there are many connections.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use crate::server::hub::Hub;
use crate::server::socket::Connection;

use super::reader::{PATIENCE, Reader, end, ended, with_room};
use super::taker::Taker;
use super::work::work_between;

/// Connections that are asked for at a time.
const EVENTS: usize = 256;
/// How often one is read at a time that has more than there is room for.
const READS_MAX: usize = 4;
/// How often it is looked for messages that take too long to come.
const LOOK: Duration = Duration::from_secs(1);
/// The peer has said its last word, or is gone.
const OVER: epoll::EventFlags =
    epoll::EventFlags::RDHUP.union(epoll::EventFlags::HUP).union(epoll::EventFlags::ERR);

/// A connection of the set.
struct Member {
    connection: Rc<Connection>,
    reader: Reader,
    /// It is in the midst of a message, since this time.
    begun: Option<Duration>,
    /// It is in the list of those.
    listed: bool,
}

/// Room for a member.
#[derive(Default)]
struct Place {
    /// How often it was used before: what is told of an earlier connection doesn't count.
    generation: u32,
    /// None also while it is read.
    member: Option<Box<Member>>,
}

/// What a connection came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Became {
    /// It waits.
    Read,
    /// There may be more, and others have their turn.
    More,
    Over,
}

/// The set.
pub(in crate::server) struct Set {
    epoll: AsyncFd<OwnedFd>,
    places: RefCell<Vec<Place>>,
    free: RefCell<Vec<u32>>,
    /// Those in the midst of a message, or that were at the last look; with their generations.
    begun: RefCell<Vec<(u32, u32)>>,
    /// There are some.
    begins: Notify,
}

impl Set {
    /// # Errors
    /// If the system has no more descriptors.
    pub(in crate::server) fn new() -> io::Result<Rc<Self>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        #[allow(
            deprecated,
            reason = "what is registered owns its descriptor, which is what `register` has to be promised"
        )]
        let epoll = AsyncFd::new(epoll)?;
        let (places, free, begun) = Default::default();
        Ok(Rc::new(Self { epoll, places, free, begun, begins: Notify::new() }))
    }

    /// From now on it is read when something comes: also what is there already.
    ///
    /// # Errors
    /// If the system can't watch it.
    pub(super) fn add(&self, connection: Rc<Connection>, reader: Reader, hub: &Hub) -> io::Result<()> {
        let mut places = self.places.borrow_mut();
        let number = self.free.borrow_mut().pop().unwrap_or_else(|| {
            places.push(Place::default());
            (places.len() - 1) as u32
        });
        let Some(place) = places.get_mut(number as usize) else { return Ok(()) };
        let mark = epoll::EventData::new_u64((u64::from(place.generation) << 32) | u64::from(number));
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        let watched = connection.watched(|stream| epoll::add(self.epoll.get_ref(), stream, mark, flags));
        if let Err(error) = watched {
            self.free.borrow_mut().push(number);
            return Err(error.into());
        }
        let mut member = Box::new(Member { connection, reader, begun: None, listed: false });
        self.note(&mut member, number, place.generation, hub);
        place.member = Some(member);
        Ok(())
    }

    /// Something came, or there is room again, or it has ended. True if it must be looked at again.
    fn on_event(&self, mark: u64, flags: epoll::EventFlags, hub: &Rc<Hub>) -> bool {
        let (number, generation) = (mark as u32, (mark >> 32) as u32);
        let Some(mut member) = self.take(number, generation) else { return false };
        if flags.contains(epoll::EventFlags::OUT) {
            hub.connections.has_room_again(&member.connection);
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

    /// Notes whether it is in the midst of a message.
    fn note(&self, member: &mut Member, number: u32, generation: u32, hub: &Hub) {
        if !member.reader.is_waiting() {
            // It leaves the list when that is looked through.
            member.begun = None;
            return;
        }
        member.begun.get_or_insert_with(|| hub.clock.elapsed());
        if !std::mem::replace(&mut member.listed, true) {
            self.begun.borrow_mut().push((number, generation));
            self.begins.notify_one();
        }
    }

    fn take(&self, number: u32, generation: u32) -> Option<Box<Member>> {
        let mut places = self.places.borrow_mut();
        places.get_mut(number as usize).filter(|place| place.generation == generation)?.member.take()
    }

    /// The connection has ended; what it still asked for is answered, if it listens.
    fn forget(&self, number: u32, Member { connection, reader, .. }: Member, hub: &Rc<Hub>) {
        if let Some(place) = self.places.borrow_mut().get_mut(number as usize) {
            place.generation = place.generation.wrapping_add(1);
            self.free.borrow_mut().push(number);
        }
        if hub.inbox(|inbox| inbox.is_empty()) {
            ended(hub, &connection, reader);
        } else {
            tokio::task::spawn_local(end(Rc::clone(hub), connection, reader));
        }
    }

    /// Ends those whose message takes too long. Who begins a message must end it: there is no time limit between messages.
    fn end_slow(&self, hub: &Rc<Hub>) {
        let now = hub.clock.elapsed();
        let mut slow = Vec::new();
        self.begun.borrow_mut().retain(|&(number, generation)| {
            let mut places = self.places.borrow_mut();
            let place = places.get_mut(number as usize).filter(|place| place.generation == generation);
            let Some(member) = place.and_then(|place| place.member.as_mut()) else { return false };
            member.listed = member.begun.is_some();
            if member.begun.is_some_and(|since| now.saturating_sub(since) >= PATIENCE) {
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
    /// Takes what has come. `over`: it ends.
    fn read(&mut self, hub: &Rc<Hub>, over: bool) -> Became {
        with_room(|room| {
            for _ in 0..READS_MAX {
                match self.connection.read_bare(room) {
                    Ok(0) => return Became::Over,
                    Ok(len) if self.reader.take(hub, room.get(..len).unwrap_or(&[])).is_err() => {
                        return Became::Over;
                    }
                    // Less than there was room for: no more is there, and more will be told.
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

/// Reads what comes until the task is ended.
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
                tracing::error!(%error, "waiting for connections");
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

/// Looks for messages that take too long to come, while there are some that have begun, until the task is ended.
pub(in crate::server) async fn end_slow(set: Rc<Set>, hub: Rc<Hub>) {
    loop {
        if set.begun.borrow().is_empty() {
            set.begins.notified().await;
        }
        tokio::time::sleep(LOOK).await;
        set.end_slow(&hub);
    }
}
