//! TCP without TLS: sockets in one epoll set, read and written by one task. A load that opens and closes a
//! connection for each request spends most of its time on that; a task and a registration for each would cost
//! as much as the server's work. The set isn't registered with the runtime but waited for directly: waking
//! one set through another costs half a microsecond for each message, on the sender's side.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use strandline::Address;
use strandline_measure::{now, raise_open_files};
use strandline_udp::choose_port_on_connect;

use crate::sip::answer::first_of;
use crate::sip::load::{Carrier, Load};
use crate::sip::out::Out;

use super::{by_source, bytes, tcp};

/// Number of bytes read at a time.
const READ: usize = 64 << 10;
/// Maximum number of events fetched at a time.
const EVENTS: usize = 256;
/// Number of sockets that are read before the resulting messages are written, so that the server works on
/// these while the others are read.
const SOME: usize = 16;
/// Delay before a lost connection is opened again.
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum lifetime of a connection for one request: 64 T1 of RFC 3261, after which no transaction waits for
/// an answer.
const ANSWER_MAX: Duration = Duration::from_secs(32);

/// The slot of a socket.
#[derive(Debug, Default)]
struct Place {
    /// The socket; `None` while it is opened again, or isn't used.
    stream: Option<TcpStream>,
    /// Number of earlier uses of this slot. Events of an earlier socket are ignored.
    generation: u32,
    source: usize,
    /// The received part of an incomplete message.
    begun: Vec<u8>,
    /// Bytes that wait to be written.
    pending: Vec<u8>,
}

/// The sockets.
pub(in crate::sip) struct Set {
    epoll: OwnedFd,
    events: RefCell<Vec<epoll::Event>>,
    server: SocketAddr,
    local: Vec<Address>,
    /// Local address that sockets have without being bound to one.
    own: Option<Address>,
    persistent: bool,
    /// With persistent connections one slot for each source, in order.
    places: RefCell<Vec<Place>>,
    free: RefCell<Vec<usize>>,
    /// Deadlines of connections in order of time, with the slot and its generation.
    ends: RefCell<VecDeque<(Instant, usize, u32)>>,
    room: RefCell<Vec<u8>>,
}

/// The state of a socket after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Became {
    /// It stays in use.
    On,
    /// Its request was answered.
    Answered,
    /// It has ended.
    Lost,
}

/// Opens a connection for each source, unless each transaction has its own, and returns the addresses.
pub(in crate::sip) async fn open(
    server: SocketAddr,
    local: &[Address],
    sources: usize,
    persistent: bool,
) -> Result<(Rc<Set>, Vec<SocketAddr>)> {
    let room = raise_open_files();
    if sources as u64 > room {
        bail!("{sources} connections exceed the limit of {room} open files: see ulimit -n");
    }
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let set = Rc::new(Set {
        epoll,
        events: RefCell::new(Vec::with_capacity(EVENTS)),
        server,
        local: local.to_vec(),
        own: own_address(server).ok(),
        persistent,
        places: RefCell::default(),
        free: RefCell::default(),
        ends: RefCell::default(),
        room: RefCell::new(vec![0; READ]),
    });
    let mut addresses = Vec::new();
    for (source, ip) in local.iter().cycle().take(sources).enumerate() {
        if !persistent {
            addresses.push(ip.with_port(5060));
            continue;
        }
        let stream = tcp::connect_plain(*ip, server).await;
        let stream = stream.with_context(|| format!("connecting to {server}"))?.into_std()?;
        addresses.push(stream.local_addr()?);
        set.watch(&stream, source, 0, true)?;
        set.places.borrow_mut().push(Place { stream: Some(stream), source, ..Place::default() });
    }
    Ok((set, addresses))
}

impl Set {
    /// Registers for received data, and for room to write if requested.
    fn watch(&self, stream: &TcpStream, place: usize, generation: u32, room: bool) -> io::Result<()> {
        let mut what = epoll::EventFlags::IN | epoll::EventFlags::ET;
        what.set(epoll::EventFlags::OUT, room);
        let mark = epoll::EventData::new_u64((u64::from(generation) << 32) | place as u64);
        Ok(epoll::add(&self.epoll, stream, mark, what)?)
    }

    /// Opens a connection for one request.
    fn begin(&self, source: usize, request: &[u8]) -> io::Result<()> {
        let ip =
            self.local.get(source % self.local.len().max(1)).copied().ok_or(ErrorKind::AddrNotAvailable)?;
        let stream = connect(Some(ip).filter(|_| self.own != Some(ip)), self.server)?;
        // On the loopback interface the connection is established already.
        let written = match (&stream).write(request) {
            Ok(written) => written,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => 0,
            Err(error) => return Err(error),
        };
        let number = self.free.borrow_mut().pop();
        let mut places = self.places.borrow_mut();
        let number = number.unwrap_or_else(|| {
            places.push(Place::default());
            places.len() - 1
        });
        let Some(place) = places.get_mut(number) else { return Ok(()) };
        let rest = request.get(written..).unwrap_or(&[]);
        place.pending.extend_from_slice(rest);
        place.source = source;
        self.watch(&stream, number, place.generation, !rest.is_empty())?;
        place.stream = Some(stream);
        self.ends.borrow_mut().push_back((now() + ANSWER_MAX, number, place.generation));
        Ok(())
    }

    /// Handles an event: a socket has received data, or has room again.
    fn on_event(self: &Rc<Self>, mark: u64, load: &Rc<Load>) {
        let (number, generation) = ((mark & u64::from(u32::MAX)) as usize, (mark >> 32) as u32);
        let mut places = self.places.borrow_mut();
        let Some(place) = places.get_mut(number).filter(|place| place.generation == generation) else {
            return;
        };
        let became = place.write().map_or(Became::Lost, |_| {
            place.read(&mut self.room.borrow_mut(), |source, bytes| {
                load.with(|engine, now| engine.handle(now, source, bytes));
            })
        });
        match became {
            Became::On => return,
            Became::Answered if self.persistent => return,
            Became::Answered => {}
            Became::Lost => load.count_lost(),
        }
        place.close();
        if self.persistent {
            tokio::task::spawn_local(open_again(Rc::clone(self), number, Rc::clone(load)));
        } else {
            self.free.borrow_mut().push(number);
        }
    }

    /// Gives up connections whose answer would come too late.
    fn give_up_late(&self, load: &Load) {
        let mut ends = self.ends.borrow_mut();
        while let Some((at, number, generation)) = ends.front().copied()
            && at <= now()
        {
            ends.pop_front();
            let mut places = self.places.borrow_mut();
            let same = |place: &&mut Place| place.generation == generation && place.stream.is_some();
            if let Some(place) = places.get_mut(number).filter(same) {
                place.close();
                self.free.borrow_mut().push(number);
                load.count_lost();
            }
        }
    }
}

impl Carrier for Rc<Set> {
    fn send(&self, out: &Out, load: &Load) {
        for (source, messages) in by_source(out) {
            if !self.persistent {
                for message in messages {
                    if let Err(error) = self.begin(source, bytes(out, message)) {
                        tracing::debug!(%error, "connecting for a request failed");
                        load.count_lost();
                    }
                }
                continue;
            }
            let mut places = self.places.borrow_mut();
            let Some(place) = places.get_mut(source) else { continue };
            match messages {
                [message] if place.pending.is_empty() => place.write_first(bytes(out, message)),
                _ => {
                    messages.iter().for_each(|message| place.pending.extend_from_slice(bytes(out, message)));
                    // If the connection has ended, the next read reports it.
                    let _ = place.write();
                }
            }
        }
        self.give_up_late(load);
    }

    fn give_up(&self, source: usize) {
        let places = self.places.borrow();
        if let Some(stream) =
            places.get(source).filter(|_| self.persistent).and_then(|place| place.stream.as_ref())
        {
            // The next read reports the end, and the connection is opened again. If it has ended already,
            // that has the same effect.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    fn wait(&self, load: &Rc<Load>, most: Duration) -> bool {
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        let mut events = self.events.borrow_mut();
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&most)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                tracing::error!(%error, "epoll_wait failed");
                return false;
            }
        }
        for some in events.chunks(SOME) {
            for event in some {
                let mark = event.data;
                self.on_event(mark.u64(), load);
            }
            load.send();
        }
        true
    }
}

impl Place {
    /// Writes a message; bytes that can't be written now wait. If the connection has ended, the next read
    /// reports it.
    fn write_first(&mut self, message: &[u8]) {
        let written = match &self.stream {
            None => 0,
            Some(stream) => {
                let mut stream = stream;
                stream.write(message).unwrap_or(0)
            }
        };
        self.pending.extend_from_slice(message.get(written..).unwrap_or(&[]));
    }

    /// Writes waiting bytes, as far as there is room.
    fn write(&mut self) -> io::Result<()> {
        let Some(mut stream) = self.stream.as_ref() else { return Ok(()) };
        while !self.pending.is_empty() {
            match stream.write(&self.pending) {
                Ok(len) => {
                    self.pending.drain(..len);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads received bytes, and passes on complete messages.
    fn read(&mut self, room: &mut [u8], mut hand_on: impl FnMut(usize, &[u8])) -> Became {
        let Some(mut stream) = self.stream.as_ref() else { return Became::On };
        let mut became = Became::On;
        loop {
            let len = match stream.read(room) {
                Ok(0) => return Became::Lost,
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return became,
                Err(_) => return Became::Lost,
            };
            let came = room.get(..len).unwrap_or(&[]);
            let used = if self.begun.is_empty() {
                let used = cut(came, |message| hand_on(self.source, message));
                self.begun.extend_from_slice(came.get(used..).unwrap_or(&[]));
                used
            } else {
                self.begun.extend_from_slice(came);
                let used = cut(&self.begun, |message| hand_on(self.source, message));
                self.begun.drain(..used);
                used
            };
            if used > 0 {
                became = Became::Answered;
            }
            // Fewer bytes than requested mean that no more are there, and that new ones will be reported.
            if len < room.len() {
                return became;
            }
        }
    }

    /// Ends the use of the socket; the set removes a socket that is closed.
    fn close(&mut self) {
        self.stream = None;
        self.generation = self.generation.wrapping_add(1);
        self.begun.clear();
        self.pending.clear();
    }
}

/// Returns the address that the kernel chooses for packets to the server. Sends nothing.
fn own_address(server: SocketAddr) -> io::Result<Address> {
    let any = if server.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(server)?;
    Ok(Address::of(socket.local_addr()?))
}

/// Begins to connect without blocking, from the given address, or from the kernel's choice.
fn connect(local: Option<Address>, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM.nonblocking(), None)?;
    if let Some(local) = local {
        if choose_port_on_connect(&socket).is_err() {
            socket.set_reuse_address(true)?;
        }
        socket.bind(&local.with_port(0).into())?;
    }
    match socket.connect(&server.into()) {
        Ok(()) => {}
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

/// Reopens a lost connection.
async fn open_again(set: Rc<Set>, number: usize, load: Rc<Load>) {
    let Some(local) = set.local.get(number % set.local.len().max(1)).copied() else { return };
    let stream = loop {
        let opened = tcp::connect_plain(local, set.server).await;
        if let Ok(stream) = opened.and_then(tokio::net::TcpStream::into_std) {
            break stream;
        }
        tokio::time::sleep(PAUSE).await;
    };
    if let (Ok(address), Some(place)) =
        (stream.local_addr(), load.engine.borrow_mut().addresses.get_mut(number))
    {
        *place = address;
    }
    let mut places = set.places.borrow_mut();
    let Some(place) = places.get_mut(number) else { return };
    if let Err(error) = set.watch(&stream, number, place.generation, true) {
        tracing::error!(%error, "adding a reopened connection to epoll failed");
        return;
    }
    place.stream = Some(stream);
    // If the connection has ended again, the next read reports it.
    let _ = place.write();
}

/// Passes on all complete messages and answers to keep-alives, and returns the number of their bytes.
fn cut(stream: &[u8], mut hand_on: impl FnMut(&[u8])) -> usize {
    let mut used = 0;
    while let Some(rest) = stream.get(used..)
        && let Some(len) = first_of(rest)
    {
        hand_on(rest.get(..len).unwrap_or(&[]));
        used += len;
    }
    used
}

#[cfg(test)]
mod tests;
