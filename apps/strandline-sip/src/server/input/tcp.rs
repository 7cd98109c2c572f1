//! TCP: a task for each connection, which waits without a buffer of its own.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::codec::{Cut, Side, StreamFramer};
use crate::transaction::{Flow, Protocol};

use crate::server::hub::Hub;
use crate::server::socket::{Connection, Room};

/// Bytes read at a time, into room that all connections of a shard share.
const READ: usize = 256 << 10;
/// How long opening a connection may take.
const OPEN: Duration = Duration::from_secs(5);
/// How long after an error that more descriptors or memory would cure.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a message may take to arrive whole: who sends it slower occupies room for nothing.
const PATIENCE: Duration = Duration::from_secs(30);

thread_local! {
    static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// What a connection was ended by.
type End = Result<(), crate::codec::Error>;

pub(in crate::server) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    TcpListener::from_std(socket.into())
}

/// Accepts until the task is ended.
pub(in crate::server) async fn serve(listener: TcpListener, hub: Rc<Hub>, room: Room) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) if !hub.connections.has_room(peer, &room) => drop(stream),
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                let (reading, writing) = stream.into_split();
                let connection = hub.connections.add(peer, Some(Rc::new(writing)));
                hub.service.borrow_mut().connection_opened(connection.id);
                tokio::task::spawn_local(receive(Rc::clone(&hub), connection, reading, Side::Accepted));
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a TCP connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Opens those connections that are wanted, until the task is ended.
pub(in crate::server) async fn open_wanted(mut wanted: UnboundedReceiver<Rc<Connection>>, hub: Rc<Hub>) {
    while let Some(connection) = wanted.recv().await {
        tokio::task::spawn_local(open(Rc::clone(&hub), connection));
    }
}

/// Opens a connection for what is queued on it already.
async fn open(hub: Rc<Hub>, connection: Rc<Connection>) {
    let opened = tokio::time::timeout(OPEN, TcpStream::connect(connection.peer)).await;
    let clients = connection.clients.take();
    match opened {
        Ok(Ok(stream)) => {
            let _ = stream.set_nodelay(true);
            let (reading, writing) = stream.into_split();
            connection.opened(Rc::new(writing));
            hub.service.borrow_mut().connection_opened(connection.id);
            tokio::task::spawn_local(Rc::clone(&connection).write_rest());
            receive(hub, connection, reading, Side::Opened).await;
        }
        Ok(Err(_)) | Err(_) => {
            tracing::debug!(peer = %connection.peer, "a connection can't be opened");
            hub.connections.remove(&connection);
            hub.with(|service, now| clients.into_iter().for_each(|client| service.send_failed(now, client)));
        }
    }
}

/// Receives until the connection ends.
async fn receive(hub: Rc<Hub>, connection: Rc<Connection>, mut stream: OwnedReadHalf, side: Side) {
    let mut reader = Reader::new(&hub, &connection, side);
    let mut begun = None;
    loop {
        let waiting = reader.is_waiting();
        let read = std::future::poll_fn(|context| poll_read(&mut stream, context, &mut reader, &hub));
        // Who begins a message must end it: there is no time limit between messages.
        let on = match waiting {
            false => {
                begun = None;
                read.await
            }
            true => {
                let begun = *begun.get_or_insert_with(tokio::time::Instant::now);
                tokio::time::timeout_at(begun + PATIENCE, read).await.unwrap_or(false)
            }
        };
        if !on {
            break;
        }
    }
    // What it still asked for is answered, if it listens.
    hub.is_done().await;
    reader.end(&hub);
    hub.connections.remove(&connection);
    hub.with(|service, _| service.connection_closed(connection.id));
    // Who still holds it, such as a task that writes, finds it closed.
    connection.stream.replace(None);
}

/// Reads into the room that all share, and handles what came while it is there. False at the end.
fn poll_read(
    stream: &mut OwnedReadHalf,
    context: &mut Context<'_>,
    reader: &mut Reader,
    hub: &Rc<Hub>,
) -> Poll<bool> {
    ROOM.with_borrow_mut(|room| {
        let mut room = ReadBuf::new(room);
        match std::task::ready!(Pin::new(stream).poll_read(context, &mut room)) {
            Ok(()) if room.filled().is_empty() => Poll::Ready(false),
            Ok(()) => Poll::Ready(reader.take(hub, room.filled()).is_ok()),
            Err(_) => Poll::Ready(false),
        }
    })
}

/// Cuts what arrives on a connection into messages. Bytes are kept only of a message that isn't whole yet.
struct Reader {
    flow: Flow,
    framer: StreamFramer,
    begun: Vec<u8>,
    /// Where the stream stopped to make sense, and why.
    broken: Option<(crate::codec::Error, Box<[u8]>)>,
}

impl Reader {
    fn new(hub: &Hub, connection: &Connection, side: Side) -> Self {
        let limits = hub.service.borrow().message_limits();
        let flow = Flow { protocol: Protocol::Tcp, connection: connection.id, peer: connection.peer };
        Self { flow, framer: StreamFramer::new(side, limits), begun: Vec::new(), broken: None }
    }

    fn is_waiting(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Takes what was read; an error if the stream makes no sense any more.
    fn take(&mut self, hub: &Rc<Hub>, read: &[u8]) -> End {
        if self.begun.is_empty() {
            let used = self.cut(hub, read)?;
            self.begun.extend_from_slice(read.get(used..).unwrap_or(&[]));
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
        Ok(())
    }

    /// Takes in all whole messages, and returns how many bytes they were.
    fn cut(&mut self, hub: &Rc<Hub>, bytes: &[u8]) -> Result<usize, crate::codec::Error> {
        let (mut used, mut result, mut pings) = (0, Ok(()), 0);
        let (flow, framer) = (self.flow, &mut self.framer);
        hub.take_in(|taking| {
            loop {
                let rest = bytes.get(used..).unwrap_or(&[]);
                match framer.cut(rest) {
                    Ok(Cut::Incomplete) => break,
                    Ok(Cut::Message { len }) => {
                        let message = rest.get(..len).unwrap_or(&[]);
                        taking.push(flow, Bytes::copy_from_slice(message));
                        used += len;
                    }
                    Ok(Cut::Ping { len }) => {
                        pings += 1;
                        used += len;
                    }
                    Ok(Cut::Pong { len } | Cut::Blank { len }) => used += len,
                    Err(error) => {
                        self.broken = Some((error, rest.into()));
                        result = Err(error);
                        break;
                    }
                }
            }
        });
        if pings > 0 {
            hub.with(|service, _| (0..pings).for_each(|_| service.out.push(flow, None, b"\r\n")));
        }
        result.map(|()| used)
    }

    /// What made no sense may still be a message that can be answered.
    fn end(self, hub: &Rc<Hub>) {
        if let Some((error, rest)) = self.broken {
            hub.with(|service, now| service.handle_unframed(now, self.flow, &rest, error));
        }
    }
}
