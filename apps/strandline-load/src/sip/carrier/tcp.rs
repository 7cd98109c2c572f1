//! Connections, with and without TLS; and TLS as a carrier: a connection for each source, or for each of its transactions.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use strandline_tls::{ClientTls, Wire};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::limits;
use crate::sip::answer::first_message;
use crate::sip::engine::Out;
use crate::sip::load::{Carrier, Load};

use super::{by_source, bytes};

/// Bytes read at a time.
const READ: usize = 64 << 10;
/// How long before a connection that was lost is opened again.
const PAUSE: Duration = Duration::from_millis(200);
/// A connection for one request ends by then: 64 T1 of RFC 3261, after which no transaction waits for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(32);

thread_local! {
    static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// One of the sources.
#[derive(Default)]
struct Source {
    stream: RefCell<Option<Rc<Wire>>>,
    /// What waits to be written.
    pending: RefCell<Vec<u8>>,
    /// A task writes.
    writing: Cell<bool>,
}

/// Requests that each want a connection of their own, with their source.
type Requests = mpsc::UnboundedReceiver<(usize, Vec<u8>)>;

/// Where connections go.
#[derive(Debug, Clone)]
pub(in crate::sip) struct To {
    pub(in crate::sip) server: SocketAddr,
    /// With TLS: whom to trust, and the name or address that the server's certificate must be for.
    pub(in crate::sip) tls: Option<(ClientTls, String)>,
}

/// The connections.
pub(in crate::sip) struct Tcp {
    sources: Vec<Rc<Source>>,
    local: Vec<IpAddr>,
    to: To,
    persistent: bool,
    /// To the task that opens a connection for each. No more wait than operations are under way.
    wanted: mpsc::UnboundedSender<(usize, Vec<u8>)>,
    requests: RefCell<Option<Requests>>,
}

/// Opens a connection for each source, unless each transaction has one of its own, and returns their addresses.
pub(in crate::sip) async fn open(
    to: To,
    local: &[IpAddr],
    sources: usize,
    persistent: bool,
) -> Result<(Tcp, Vec<SocketAddr>)> {
    let most = limits::raise_open_files();
    if sources as u64 > most {
        bail!(
            "{sources} connections need more open files than the {most} that this process may have: see ulimit -n"
        );
    }
    let (wanted, requests) = mpsc::unbounded_channel();
    let tcp = Tcp {
        wanted,
        requests: RefCell::new(Some(requests)),
        sources: (0..sources).map(|_| Rc::default()).collect(),
        local: local.to_vec(),
        to: to.clone(),
        persistent,
    };
    let mut addresses = Vec::new();
    for (source, ip) in tcp.sources.iter().zip(local.iter().cycle()) {
        if !persistent {
            addresses.push((*ip, 5060).into());
            continue;
        }
        let stream = connect(*ip, &to).await.with_context(|| format!("connecting to {}", to.server))?;
        addresses.push(stream.tcp().local_addr()?);
        source.stream.replace(Some(Rc::new(stream)));
    }
    Ok((tcp, addresses))
}

/// Connects, with TLS if that is wanted.
pub(in crate::sip) async fn connect(local: IpAddr, to: &To) -> io::Result<Wire> {
    let stream = connect_plain(local, to.server).await?;
    let Some((tls, name)) = &to.tls else { return Ok(Wire::plain(stream)) };
    let wire = Wire::opened(stream, tls, name)?;
    wire.handshake().await?;
    Ok(wire)
}

pub(super) async fn connect_plain(local: IpAddr, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = if local.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    // The port is chosen when it is known whom it is for: then one can be used that leads elsewhere, or led to the server until
    // a moment ago. To look for one that nobody uses at all takes ever longer, the more there are.
    if setsockopt(&socket, IpBindAddressNoPort, &true).is_err() {
        tracing::debug!("ports are chosen at once");
    }
    socket.bind((local, 0).into())?;
    let stream = socket.connect(server).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Tcp {
    /// Receives until the tasks are ended.
    pub(in crate::sip) fn serve(&self, load: &Rc<Load>) {
        if !self.persistent {
            if let Some(requests) = self.requests.take() {
                tokio::task::spawn_local(dispatch(
                    requests,
                    self.local.clone(),
                    self.to.clone(),
                    Rc::clone(load),
                ));
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
            if !self.persistent {
                for message in messages {
                    // Nobody takes it once the load is over.
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
}

impl Source {
    /// Writes as much as goes without waiting. False if something is left.
    fn write(&self) -> bool {
        let Some(stream) = self.stream.borrow().clone() else { return true };
        let mut pending = self.pending.borrow_mut();
        while !pending.is_empty() {
            match stream.try_write(&pending) {
                Ok(len) => {
                    pending.drain(..len);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // Whoever reads finds the end.
                Err(_) => pending.clear(),
            }
        }
        stream.try_flush().unwrap_or(true)
    }
}

async fn write_rest(source: Rc<Source>) {
    loop {
        let stream = source.stream.borrow().clone();
        let Some(stream) = stream else { break };
        if stream.tcp().writable().await.is_err() || source.write() {
            break;
        }
    }
    source.writing.set(false);
}

/// Receives on a connection, and opens it again when it is lost.
async fn persist(source: Rc<Source>, number: usize, load: Rc<Load>, (local, to): (IpAddr, To)) {
    loop {
        let stream = source.stream.borrow().clone();
        if let Some(stream) = stream {
            receive(&stream, number, &load, || false).await;
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

/// Opens a connection for each request that is to be sent.
async fn dispatch(mut requests: Requests, local: Vec<IpAddr>, to: To, load: Rc<Load>) {
    // Those under way end with this task.
    let mut under_way = JoinSet::new();
    while let Some((source, request)) = requests.recv().await {
        while under_way.try_join_next().is_some() {}
        let Some(ip) = local.get(source % local.len().max(1)).copied() else { continue };
        under_way.spawn_local(transact(request, source, Rc::clone(&load), (ip, to.clone())));
    }
}

/// Sends a request on a connection of its own, and closes that when it is answered.
async fn transact(request: Vec<u8>, source: usize, load: Rc<Load>, (local, to): (IpAddr, To)) {
    let whole = async {
        let stream = Rc::new(connect(local, &to).await?);
        let one = Source { stream: RefCell::new(Some(Rc::clone(&stream))), ..Source::default() };
        one.pending.replace(request);
        if !one.write() {
            write_rest(Rc::new(one)).await;
        }
        Ok::<_, io::Error>(receive(&stream, source, &load, || true).await)
    };
    if !matches!(timeout(ANSWER_MAX, whole).await, Ok(Ok(true))) {
        load.count_lost();
    }
}

/// Hands on what comes, until the connection ends or `over` says so after a message. True if that was why it ended.
async fn receive(stream: &Wire, source: usize, load: &Rc<Load>, over: impl Fn() -> bool) -> bool {
    let mut begun: Vec<u8> = Vec::new();
    while std::future::poll_fn(|context| stream.poll_read_ready(context)).await.is_ok() {
        let read = ROOM.with_borrow_mut(|room| {
            let len = stream.try_read(room)?;
            let read = room.get(..len).unwrap_or(&[]);
            if begun.is_empty() {
                let used = cut(read, source, load);
                begun.extend_from_slice(read.get(used..).unwrap_or(&[]));
                return Ok((len, used));
            }
            begun.extend_from_slice(read);
            let used = cut(&begun, source, load);
            begun.drain(..used);
            Ok::<_, io::Error>((len, used))
        });
        match read {
            Ok((0, _)) => return false,
            Ok((_, 0)) => {}
            Ok(_) if over() => return true,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
    false
}

/// Hands on all whole messages, and returns how many bytes they were.
fn cut(stream: &[u8], source: usize, load: &Rc<Load>) -> usize {
    let mut used = 0;
    load.with(|engine, now| {
        while let Some(rest) = stream.get(used..)
            && let Some(len) = first_message(rest)
        {
            engine.handle(now, source, rest.get(..len).unwrap_or(&[]));
            used += len;
        }
    });
    used
}
