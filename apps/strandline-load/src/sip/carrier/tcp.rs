//! TCP, with and without TLS: one connection for each source, or for each of its transactions.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use strandline::Address;
use strandline_measure::raise_open_files;
use strandline_tls::{ClientTls, Wire};
use strandline_udp::choose_port_on_connect;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::sip::answer::first_of;
use crate::sip::load::{Carrier, Load};
use crate::sip::out::Out;

use super::{by_source, bytes};

/// Number of bytes read at a time.
const READ: usize = 64 << 10;
/// Delay before a lost connection is opened again.
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum lifetime of a connection for one request: 64 T1 of RFC 3261, after which no transaction waits for
/// an answer.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(32);

thread_local! {
    static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// A source of messages.
#[derive(Default)]
pub(super) struct Source {
    pub(super) stream: RefCell<Option<Rc<Wire>>>,
    /// Bytes that wait to be written.
    pub(super) pending: RefCell<Vec<u8>>,
    /// Whether a task is writing.
    pub(super) writing: Cell<bool>,
}

/// The lifetime of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sip) enum Each {
    /// As long as the load.
    Persistent,
    /// From a request on; `kept` of the most recent ones stay open.
    Request { kept: usize },
}

/// Requests that each need their own connection, with their source.
type Requests = mpsc::UnboundedReceiver<(usize, Vec<u8>)>;

/// The destination of connections.
#[derive(Debug, Clone)]
pub(in crate::sip) struct To {
    pub(in crate::sip) server: SocketAddr,
    /// With TLS: the settings, and the name or address that the server's certificate must be for.
    pub(in crate::sip) tls: Option<(ClientTls, String)>,
}

/// The connections.
pub(in crate::sip) struct Tcp {
    sources: Vec<Rc<Source>>,
    local: Vec<Address>,
    to: To,
    each: Each,
    /// Queue to the task that opens a connection for each request. It holds no more than the concurrent
    /// operations.
    wanted: mpsc::UnboundedSender<(usize, Vec<u8>)>,
    requests: RefCell<Option<Requests>>,
}

/// Opens a connection for each source, unless each transaction has its own, and returns the addresses.
pub(in crate::sip) async fn open(
    to: To,
    local: &[Address],
    sources: usize,
    each: Each,
) -> Result<(Tcp, Vec<SocketAddr>)> {
    let most = raise_open_files();
    let stay = if let Each::Request { kept } = each { kept } else { sources };
    if stay as u64 > most {
        bail!("{stay} connections exceed the limit of {most} open files: see ulimit -n");
    }
    let (wanted, requests) = mpsc::unbounded_channel();
    let tcp = Tcp {
        wanted,
        requests: RefCell::new(Some(requests)),
        sources: (0..sources).map(|_| Rc::default()).collect(),
        local: local.to_vec(),
        to: to.clone(),
        each,
    };
    let mut addresses = Vec::new();
    for (source, ip) in tcp.sources.iter().zip(local.iter().cycle()) {
        if each != Each::Persistent {
            addresses.push(ip.with_port(5060));
            continue;
        }
        let stream = connect(*ip, &to).await.with_context(|| format!("connecting to {}", to.server))?;
        addresses.push(stream.tcp().local_addr()?);
        source.stream.replace(Some(Rc::new(stream)));
    }
    Ok((tcp, addresses))
}

/// Connects, with TLS if requested.
pub(in crate::sip) async fn connect(local: Address, to: &To) -> io::Result<Wire> {
    let stream = connect_plain(local, to.server).await?;
    let Some((tls, name)) = &to.tls else { return Ok(Wire::plain(stream)) };
    let wire = Wire::opened(stream, tls, name)?;
    wire.handshake().await?;
    Ok(wire)
}

/// Connects without TLS.
pub(super) async fn connect_plain(local: Address, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = if local.ip().is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    // The port is chosen when the destination is known, so it may be one that is in use to another
    // destination, or was used to the server until a moment ago. Finding a port that is entirely unused takes
    // longer the more connections there are.
    if choose_port_on_connect(&socket).is_err() {
        tracing::debug!("setting IP_BIND_ADDRESS_NO_PORT failed; bind chooses the ports");
    }
    socket.bind(local.with_port(0))?;
    let stream = socket.connect(server).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connects for one request, and writes as much of it as possible before waiting: on the loopback interface a
/// connection is established when the call that opens it returns.
pub(super) async fn connect_with(local: Address, to: &To, request: &[u8]) -> io::Result<(Wire, usize)> {
    if to.tls.is_some() {
        return Ok((connect(local, to).await?, 0));
    }
    let socket = Socket::new(Domain::for_address(to.server), Type::STREAM.nonblocking(), None)?;
    if choose_port_on_connect(&socket).is_err() {
        socket.set_reuse_address(true)?;
    }
    socket.bind(&local.with_port(0).into())?;
    let written = match socket.connect(&to.server.into()) {
        Ok(()) => (&socket).write(request)?,
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INPROGRESS) => 0,
        Err(error) => return Err(error),
    };
    let stream = TcpStream::from_std(socket.into())?;
    if written == 0 {
        stream.writable().await?;
        stream.take_error()?.map_or(Ok(()), Err)?;
    }
    Ok((Wire::plain(stream), written))
}

impl Tcp {
    /// Receives until the tasks are ended.
    pub(in crate::sip) fn serve(&self, load: &Rc<Load>) {
        if let Each::Request { kept } = self.each {
            if let Some(requests) = self.requests.take() {
                let kept = Rc::new(Kept { most: kept, wires: RefCell::default() });
                let (local, to) = (self.local.clone(), self.to.clone());
                tokio::task::spawn_local(dispatch(requests, (local, to), Rc::clone(load), kept));
            }
            return;
        }
        let sources = self.sources.iter().zip(self.local.iter().cycle());
        for (number, (source, local)) in sources.enumerate() {
            let (source, load, to) = (Rc::clone(source), Rc::clone(load), (*local, self.to.clone()));
            tokio::task::spawn_local(persist(source, number, load, to));
        }
    }
}

impl Carrier for Tcp {
    fn send(&self, out: &Out, _: &Load) {
        for (number, messages) in by_source(out) {
            let Some(source) = self.sources.get(number) else { continue };
            if self.each != Each::Persistent {
                for message in messages {
                    // The receiver is gone once the load is over.
                    let _ = self.wanted.send((number, bytes(out, message).to_vec()));
                }
                continue;
            }
            {
                let mut pending = source.pending.borrow_mut();
                messages.iter().for_each(|message| pending.extend_from_slice(bytes(out, message)));
            }
            if !source.writing.get() && !source.write() {
                source.writing.set(true);
                tokio::task::spawn_local(write_rest(Rc::clone(source)));
            }
        }
    }

    fn give_up(&self, source: usize) {
        let source = self.sources.get(source).filter(|_| self.each == Each::Persistent);
        let stream = source.and_then(|source| source.stream.borrow().clone());
        if let Some(stream) = stream {
            // The reader sees the end, and opens another connection. If it has ended already, that has the
            // same effect.
            let _ = socket2::SockRef::from(stream.tcp()).shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Source {
    /// Writes as much as possible without blocking. Returns false if something is left.
    pub(super) fn write(&self) -> bool {
        let Some(stream) = self.stream.borrow().clone() else { return true };
        let mut pending = self.pending.borrow_mut();
        while !pending.is_empty() {
            match stream.try_write(&pending) {
                Ok(len) => {
                    pending.drain(..len);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // The reader sees the end.
                Err(_) => pending.clear(),
            }
        }
        stream.try_flush().unwrap_or(true)
    }
}

pub(super) async fn write_rest(source: Rc<Source>) {
    loop {
        let stream = source.stream.borrow().clone();
        let Some(stream) = stream else { break };
        if stream.tcp().writable().await.is_err() || source.write() {
            break;
        }
    }
    source.writing.set(false);
}

/// Receives on a connection, and reopens it when it is lost.
async fn persist(source: Rc<Source>, number: usize, load: Rc<Load>, (local, to): (Address, To)) {
    loop {
        let stream = source.stream.borrow().clone();
        if let Some(stream) = stream {
            receive(&stream, number, &load, |_| false).await;
            load.count_lost();
        }
        source.stream.replace(None);
        source.pending.borrow_mut().clear();
        match connect(local, &to).await {
            Ok(stream) => {
                if let (Ok(address), Some(place)) =
                    (stream.tcp().local_addr(), load.engine.borrow_mut().addresses.get_mut(number))
                {
                    *place = address;
                }
                source.stream.replace(Some(Rc::new(stream)));
                source.write();
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Connections that stay open when they are not used any more.
struct Kept {
    most: usize,
    wires: RefCell<VecDeque<Rc<Wire>>>,
}

impl Kept {
    fn add(&self, wire: Rc<Wire>) {
        let mut wires = self.wires.borrow_mut();
        wires.push_back(wire);
        while wires.len() > self.most {
            wires.pop_front();
        }
    }
}

/// Opens a connection for each request.
async fn dispatch(mut requests: Requests, (local, to): (Vec<Address>, To), load: Rc<Load>, kept: Rc<Kept>) {
    // Tasks in progress end with this task.
    let mut under_way = JoinSet::new();
    while let Some((source, request)) = requests.recv().await {
        while under_way.try_join_next().is_some() {}
        let Some(ip) = local.get(source % local.len().max(1)).copied() else { continue };
        under_way.spawn_local(transact(
            request,
            source,
            (Rc::clone(&load), Rc::clone(&kept)),
            (ip, to.clone()),
        ));
    }
}

/// Sends a request on its own connection, and closes that when the request is answered, unless the connection
/// is kept.
async fn transact(
    request: Vec<u8>,
    source: usize,
    (load, kept): (Rc<Load>, Rc<Kept>),
    (local, to): (Address, To),
) {
    let whole = async {
        let (stream, written) = connect_with(local, &to, &request).await?;
        let stream = Rc::new(stream);
        if let Some(rest) = request.get(written..).filter(|rest| !rest.is_empty()) {
            let one = Source { stream: RefCell::new(Some(Rc::clone(&stream))), ..Source::default() };
            one.pending.replace(rest.to_vec());
            if !one.write() {
                write_rest(Rc::new(one)).await;
            }
        }
        let answered = receive(&stream, source, &load, |_| true).await;
        if answered {
            kept.add(stream);
        }
        Ok::<_, io::Error>(answered)
    };
    if !matches!(timeout(ANSWER_MAX, whole).await, Ok(Ok(true))) {
        load.count_lost();
    }
}

/// Passes on received messages until the connection ends or `over` accepts a message as the last one. Returns
/// true in the latter case.
pub(super) async fn receive(
    stream: &Wire,
    source: usize,
    load: &Rc<Load>,
    mut over: impl FnMut(&[u8]) -> bool,
) -> bool {
    let mut begun: Vec<u8> = Vec::new();
    while std::future::poll_fn(|context| stream.poll_read_ready(context)).await.is_ok() {
        let read = ROOM.with_borrow_mut(|room| {
            let len = stream.try_read(room)?;
            let read = room.get(..len).unwrap_or(&[]);
            if begun.is_empty() {
                let (used, last) = cut(read, source, load, &mut over);
                begun.extend_from_slice(read.get(used..).unwrap_or(&[]));
                return Ok((len, last));
            }
            begun.extend_from_slice(read);
            let (used, last) = cut(&begun, source, load, &mut over);
            begun.drain(..used);
            Ok::<_, io::Error>((len, last))
        });
        match read {
            Ok((_, true)) => return true,
            Ok((0, _)) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
    false
}

/// Passes on all complete messages; returns the number of their bytes, and whether the last message was among
/// them.
fn cut(stream: &[u8], source: usize, load: &Rc<Load>, over: &mut impl FnMut(&[u8]) -> bool) -> (usize, bool) {
    let (mut used, mut last) = (0, false);
    load.with(|engine, now| {
        while let Some(rest) = stream.get(used..)
            && let Some(len) = first_of(rest)
        {
            let message = rest.get(..len).unwrap_or(&[]);
            last |= over(message);
            engine.handle(now, source, message);
            used += len;
        }
    });
    (used, last)
}
