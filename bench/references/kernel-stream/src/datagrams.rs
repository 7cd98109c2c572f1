//! Plain datagrams over UDP or raw IP.

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use common::batch::{BATCH, Receiver, Sender};
use common::{Stopwatch, content};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrIn, sendmsg, setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{Batch, Kind, packets};

/// SCTP's protocol number.
const PROTOCOL: u8 = 132;
const IPV4_HEADER_BYTES: usize = 20;
/// Maximum number of bytes of one GSO send.
const GSO_BYTES: usize = 65_507;
const GSO_SEGMENTS: usize = 64;
/// Time without datagrams after which the sender is considered to have ended.
const SILENCE: Duration = Duration::from_millis(500);

fn open(kind: Kind, port: u16) -> anyhow::Result<Socket> {
    if kind == Kind::Udp {
        return common::udp(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port));
    }
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(i32::from(PROTOCOL))));
    let socket = socket.context("a raw socket (it needs CAP_NET_RAW)")?;
    common::enlarge(&socket)?;
    Ok(socket)
}

pub(crate) fn receive(args: &crate::Receive) -> anyhow::Result<()> {
    ensure!(args.kind != Kind::Packet, "what a packet socket sends is received as raw");
    let socket = open(args.kind, args.port)?;
    if args.gro {
        setsockopt(&socket, sockopt::UdpGroSegment, &true)?;
    }
    let overhead = if args.kind == Kind::Raw { IPV4_HEADER_BYTES } else { 0 };
    let mut receiver = Receiver::new(1 << 16);
    let mut count = |waits| -> anyhow::Result<(u64, u64)> {
        let (mut bytes, mut datagrams) = (0, 0);
        for datagram in receiver.receive(&socket, waits)? {
            bytes += datagram.len().saturating_sub(overhead) as u64;
            datagrams += 1;
        }
        Ok((bytes, datagrams))
    };
    let (mut bytes, mut datagrams) = count(true)?;
    let watch = Stopwatch::start()?;
    socket.set_read_timeout(Some(SILENCE))?;
    let mut last = Instant::now();
    loop {
        let (more_bytes, more) = count(true)?;
        if more == 0 {
            break;
        }
        bytes += more_bytes;
        datagrams += more;
        last = Instant::now();
    }
    // The silence after the last datagram costs no processor time.
    let seconds = last.duration_since(watch.begin).as_secs_f64();
    watch.report("receiver", "datagrams", bytes, datagrams)?.lasting(seconds).print()
}

pub(crate) fn send(args: &crate::Send) -> anyhow::Result<()> {
    let size = args.size as usize;
    ensure!(size <= GSO_BYTES, "a datagram is smaller than 64 KiB");
    let (socket, head) = match args.kind {
        Kind::Packet => packets::open(args.to, PROTOCOL, size)?,
        kind => {
            let socket = open(kind, 0)?;
            let to = SocketAddr::new(args.to, if kind == Kind::Udp { args.port } else { 0 });
            socket.connect(&to.into())?;
            (socket, Vec::new())
        }
    };
    let watch = Stopwatch::start()?;
    let end = watch.begin + Duration::try_from_secs_f64(args.seconds)?;
    let mut datagrams = 0;
    match args.batch {
        Batch::One | Batch::Many => {
            let calls = if args.batch == Batch::One { BATCH } else { 1 };
            let data = vec![[head, content(size)].concat(); BATCH / calls];
            let mut sender = Sender::new(None);
            while Instant::now() < end {
                for _ in 0..calls {
                    sender.send(&socket, &data)?;
                }
                datagrams += BATCH as u64;
            }
        }
        Batch::Gso => {
            ensure!(args.kind == Kind::Udp, "only UDP has GSO");
            let segments = (GSO_BYTES / size).clamp(1, GSO_SEGMENTS);
            let data = content(segments * size);
            while Instant::now() < end {
                send_train(&socket, &data, size)?;
                datagrams += segments as u64;
            }
        }
    }
    watch.report("sender", "datagrams", datagrams * size as u64, datagrams)?.print()
}

fn send_train(socket: &Socket, data: &[u8], size: usize) -> anyhow::Result<()> {
    let segment = u16::try_from(size)?;
    let control = [ControlMessage::UdpGsoSegments(&segment)];
    let (slices, flags) = ([IoSlice::new(data)], MsgFlags::empty());
    match sendmsg::<SockaddrIn>(socket.as_raw_fd(), &slices, &control, flags, None) {
        Ok(_) | Err(Errno::ECONNREFUSED | Errno::ENOBUFS | Errno::EINTR) => Ok(()),
        Err(error) => Err(error).context("sending a train"),
    }
}
