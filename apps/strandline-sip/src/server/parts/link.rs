//! A phone and the server's sockets on this machine. The phone sends requests, and the time that the server
//! takes to receive them is measured.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use strandline::{Association, AssociationId, Endpoint, Listener, Peer, SendInfo, Stack};

use crate::codec::{Cut, Limits, Side, StreamFramer};

use super::meter::{Meter, Part};
use super::{Lifetime, Transport};

const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Size of the read buffer, in bytes.
const ROOM: usize = 64 << 10;

/// A transport.
pub(super) enum Link {
    Udp {
        phone: UdpSocket,
        server: UdpSocket,
    },
    Tcp {
        listener: TcpListener,
        lifetime: Lifetime,
        stands: Option<(TcpStream, TcpStream)>,
        kept: Vec<TcpStream>,
    },
    Many {
        phone: Association,
        server: Endpoint,
        from: Option<AssociationId>,
        _stacks: [Stack; 2],
    },
    One {
        phone: Association,
        server: Association,
        _listener: Listener,
        _stacks: [Stack; 2],
    },
}

impl Link {
    pub(super) async fn open(transport: Transport, lifetime: Lifetime) -> Result<Self> {
        Ok(match transport {
            Transport::Udp => {
                let (phone, server) = (UdpSocket::bind((HERE, 0))?, UdpSocket::bind((HERE, 0))?);
                phone.connect(server.local_addr()?)?;
                Self::Udp { phone, server }
            }
            Transport::Tcp => {
                let listener = TcpListener::bind((HERE, 0))?;
                let stands = match lifetime {
                    Lifetime::Persistent => Some(connect(&listener, None)?),
                    Lifetime::Open | Lifetime::Transaction => None,
                };
                Self::Tcp { listener, lifetime, stands, kept: Vec::new() }
            }
            Transport::SctpMany => {
                let (here, there) = (stack()?, stack()?);
                let server = Endpoint::bind(&there, 0)?;
                let phone = Association::connect(&here, &peer(&there, server.port())?).await?;
                Self::Many { phone, server, from: None, _stacks: [here, there] }
            }
            Transport::SctpOne => {
                let (here, there) = (stack()?, stack()?);
                let listener = Listener::bind(&there, 0)?;
                let phone = Association::connect(&here, &peer(&there, listener.port())?).await?;
                let server = listener.accept().await?;
                Self::One { phone, server, _listener: listener, _stacks: [here, there] }
            }
        })
    }

    /// The phone sends a request, and the server receives it. Returns its source and its bytes.
    pub(super) async fn take(&mut self, request: &[u8], meter: &mut Meter) -> Result<(SocketAddr, Vec<u8>)> {
        match self {
            Self::Udp { phone, server } => {
                phone.send(request)?;
                let mut room = vec![0; ROOM];
                let (len, from) = meter.time(Part::Read, || server.recv_from(&mut room))?;
                room.truncate(len);
                Ok((from, room))
            }
            Self::Tcp { listener, stands, .. } => {
                if stands.is_none() {
                    *stands = Some(connect(listener, Some(meter))?);
                }
                let (phone, server) = stands.as_mut().context("no connection")?;
                phone.write_all(request)?;
                let message = read_message(server, meter)?;
                Ok((server.peer_addr()?, message))
            }
            Self::Many { phone, server, from, .. } => {
                phone.send_bytes(Bytes::copy_from_slice(request), SendInfo::default()).await?;
                let mut messages = Vec::with_capacity(1);
                let (count, took) = timed(server.recv_many_from(&mut messages, 1), meter).await;
                count?;
                meter.count(Part::Read, took);
                let (id, message) = messages.pop().context("no message")?;
                *from = Some(id);
                Ok(((HERE, 5060).into(), message.data.to_vec()))
            }
            Self::One { phone, server, .. } => {
                phone.send_bytes(Bytes::copy_from_slice(request), SendInfo::default()).await?;
                let mut messages = Vec::with_capacity(1);
                let (count, took) = timed(server.recv_many(&mut messages, 1), meter).await;
                count?;
                meter.count(Part::Read, took);
                let message = messages.pop().context("no message")?;
                Ok(((HERE, 5060).into(), message.data.to_vec()))
            }
        }
    }

    /// The server responds and the phone receives the response. With a connection for each transaction, it is
    /// then closed.
    pub(super) async fn answer(&mut self, to: SocketAddr, answer: &[u8], meter: &mut Meter) -> Result<()> {
        let mut room = vec![0; ROOM];
        match self {
            Self::Udp { phone, server } => {
                meter.time(Part::Write, || server.send_to(answer, to))?;
                phone.recv(&mut room)?;
            }
            Self::Tcp { lifetime, stands, kept, .. } => {
                let (phone, server) = stands.as_mut().context("no connection")?;
                meter.time(Part::Write, || server.write_all(answer))?;
                phone.read_exact(room.get_mut(..answer.len()).context("a long answer")?)?;
                match lifetime {
                    Lifetime::Persistent => {}
                    Lifetime::Open => kept.extend(stands.take().into_iter().flat_map(|(a, b)| [a, b])),
                    Lifetime::Transaction => {
                        let Some((phone, mut server)) = stands.take() else { return Ok(()) };
                        drop(phone);
                        meter.time(Part::Read, || server.read(&mut room))?;
                        meter.time(Part::Close, || drop(server));
                    }
                }
            }
            Self::Many { phone, server, from, .. } => {
                let to = from.context("nobody has asked")?;
                let data = Bytes::copy_from_slice(answer);
                let (sent, took) = timed(server.send_to(to, data, SendInfo::default()), meter).await;
                sent?;
                meter.count(Part::Write, took);
                phone.recv().await?;
            }
            Self::One { phone, server, .. } => {
                let data = Bytes::copy_from_slice(answer);
                let (sent, took) = timed(server.send_bytes(data, SendInfo::default()), meter).await;
                sent?;
                meter.count(Part::Write, took);
                phone.recv().await?;
            }
        }
        Ok(())
    }
}

fn stack() -> Result<Stack> {
    Ok(Stack::builder().udp((HERE, 0).into())?)
}

fn peer(stack: &Stack, port: u16) -> Result<Peer> {
    let carrier = stack.local_addr().context("a stack without an address")?.port();
    Ok(Peer::new(HERE, port).encapsulation_port(carrier))
}

/// A connection: the phone's end and the server's.
fn connect(listener: &TcpListener, meter: Option<&mut Meter>) -> Result<(TcpStream, TcpStream)> {
    let phone = TcpStream::connect(listener.local_addr()?)?;
    let accepted = match meter {
        Some(meter) => meter.time(Part::Accept, || listener.accept()),
        None => listener.accept(),
    };
    let (server, _) = accepted?;
    phone.set_nodelay(true)?;
    server.set_nodelay(true)?;
    Ok((phone, server))
}

/// Reads until a message is complete.
fn read_message(server: &mut TcpStream, meter: &mut Meter) -> Result<Vec<u8>> {
    let (mut room, mut came) = (vec![0; ROOM], Vec::new());
    let mut framer = StreamFramer::new(Side::Accepted, Limits::default());
    loop {
        let len = meter.time(Part::Read, || server.read(&mut room))?;
        came.extend_from_slice(room.get(..len).unwrap_or(&[]));
        let cut = meter.time(Part::Frame, || framer.cut(&came)).context("the phone's request")?;
        if let Cut::Message { len } = cut {
            came.truncate(len);
            return Ok(came);
        }
    }
}

/// Waits for `work`, and returns the duration of the last poll; earlier polls only waited.
async fn timed<T>(work: impl Future<Output = T>, meter: &Meter) -> (T, Duration) {
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        let begin = meter.elapsed();
        work.as_mut().poll(context).map(|done| (done, meter.elapsed().saturating_sub(begin)))
    })
    .await
}
