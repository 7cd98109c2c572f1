//! TCP: a connection for each source, or for each of its transactions.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;

use crate::limits;
use crate::sip::answer::first_message;
use crate::sip::engine::Out;
use crate::sip::load::{Carrier, Load};

use super::{by_source, bytes};

/// Bytes read at a time.
const READ: usize = 64 << 10;
/// How long before a connection that was lost is opened again.
const PAUSE: Duration = Duration::from_millis(200);

thread_local! {
    static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// One of the sources.
#[derive(Default)]
struct Source {
    stream: RefCell<Option<Rc<TcpStream>>>,
    /// What waits to be written.
    pending: RefCell<Vec<u8>>,
    /// Messages in it, or written without an answer so far.
    unanswered: Cell<usize>,
    /// A task writes.
    writing: Cell<bool>,
    /// Something waits to be written.
    wanted: Notify,
}

/// The connections.
pub(in crate::sip) struct Tcp {
    sources: Vec<Rc<Source>>,
    local: Vec<IpAddr>,
    server: SocketAddr,
    persistent: bool,
}

/// Opens a connection for each source, unless each transaction has one of its own, and returns their addresses.
pub(in crate::sip) async fn open(
    server: SocketAddr,
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
    let tcp = Tcp {
        sources: (0..sources).map(|_| Rc::default()).collect(),
        local: local.to_vec(),
        server,
        persistent,
    };
    let mut addresses = Vec::new();
    for (source, ip) in tcp.sources.iter().zip(local.iter().cycle()) {
        if !persistent {
            addresses.push((*ip, 5060).into());
            continue;
        }
        let stream = connect(*ip, server).await.with_context(|| format!("connecting to {server}"))?;
        addresses.push(stream.local_addr()?);
        source.stream.replace(Some(Rc::new(stream)));
    }
    Ok((tcp, addresses))
}

async fn connect(local: IpAddr, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = if local.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind((local, 0).into())?;
    let stream = socket.connect(server).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Tcp {
    /// Receives until the tasks are ended.
    pub(in crate::sip) fn serve(&self, load: &Rc<Load>) {
        let sources = self.sources.iter().zip(self.local.iter().cycle());
        for (number, (source, local)) in sources.enumerate() {
            let (source, load, to) = (Rc::clone(source), Rc::clone(load), (*local, self.server));
            if self.persistent {
                tokio::task::spawn_local(persist(source, number, load, to));
            } else {
                tokio::task::spawn_local(transact(source, number, load, to));
            }
        }
    }
}

impl Carrier for Tcp {
    fn send(&self, out: &Out) {
        for (number, messages) in by_source(out) {
            let Some(source) = self.sources.get(number) else { continue };
            {
                let mut pending = source.pending.borrow_mut();
                messages.iter().for_each(|message| pending.extend_from_slice(bytes(out, message)));
            }
            source.unanswered.set(source.unanswered.get() + messages.len());
            if !self.persistent {
                source.wanted.notify_one();
            } else if !source.writing.get() && !source.write() {
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
        true
    }
}

async fn write_rest(source: Rc<Source>) {
    loop {
        let stream = source.stream.borrow().clone();
        let Some(stream) = stream else { break };
        if stream.writable().await.is_err() || source.write() {
            break;
        }
    }
    source.writing.set(false);
}

/// Receives on a connection, and opens it again when it is lost.
async fn persist(source: Rc<Source>, number: usize, load: Rc<Load>, (local, server): (IpAddr, SocketAddr)) {
    loop {
        let stream = source.stream.borrow().clone();
        if let Some(stream) = stream {
            receive(&stream, number, &load, || false).await;
            load.count_lost();
        }
        source.stream.replace(None);
        source.pending.borrow_mut().clear();
        match connect(local, server).await {
            Ok(stream) => {
                if let (Ok(address), Some(place)) =
                    (stream.local_addr(), load.engine.borrow_mut().addresses.get_mut(number))
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

/// Opens a connection for what is to be sent, and closes it when all is answered.
async fn transact(source: Rc<Source>, number: usize, load: Rc<Load>, (local, server): (IpAddr, SocketAddr)) {
    loop {
        while source.pending.borrow().is_empty() {
            source.wanted.notified().await;
        }
        let Ok(stream) = connect(local, server).await else {
            source.pending.borrow_mut().clear();
            source.unanswered.set(0);
            load.count_lost();
            continue;
        };
        let stream = Rc::new(stream);
        source.stream.replace(Some(Rc::clone(&stream)));
        if !source.write() {
            write_rest(Rc::clone(&source)).await;
        }
        receive(&stream, number, &load, || {
            source.unanswered.set(source.unanswered.get().saturating_sub(1));
            source.unanswered.get() == 0 || !source.pending.borrow().is_empty()
        })
        .await;
        source.unanswered.set(0);
        source.stream.replace(None);
    }
}

/// Hands on what comes, until the connection ends or `over` says so after a message.
async fn receive(stream: &TcpStream, source: usize, load: &Rc<Load>, over: impl Fn() -> bool) {
    let mut begun: Vec<u8> = Vec::new();
    while stream.readable().await.is_ok() {
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
            Ok((0, _)) => return,
            Ok((_, 0)) => {}
            Ok(_) if over() => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
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
