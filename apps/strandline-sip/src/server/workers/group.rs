//! The sockets of all workers, opened by the supervisor. Each address has one socket for each worker
//! (SO_REUSEPORT), and the kernel chooses one by the addresses and ports of both ends. The sockets of a
//! worker that dies are passed to its replacement. Input waits there meanwhile, and no input moves to another
//! worker.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use socket2::Socket;
use strandline_ops::bind_udp;

use crate::server::config::{Config, Listen};
use crate::server::hints;
use crate::server::input::accept;
use crate::server::socket::ConnectionLimits;
use crate::transaction::Protocol;

use super::frame::Handed;

/// The pause between attempts to bind, while a previous server releases its addresses, and their number.
const LET_GO: Duration = Duration::from_millis(50);
const TRIES: usize = 20;
/// Size of the buffers of the workers' mail, in bytes.
const MAIL: usize = 1 << 20;

/// An address on which all workers listen.
struct Shared {
    /// The listener, with its actual port.
    listen: Listen,
    /// The configured address.
    configured: SocketAddr,
    /// One socket for each worker.
    sockets: Vec<Option<OwnedFd>>,
}

/// All sockets.
pub(super) struct Group {
    connection_limits: ConnectionLimits,
    /// One entry for each `listen` of the configuration; `None` for SCTP.
    shared: Vec<Option<Shared>>,
    /// For each worker, the socket from which it reads mail, and the one to which others write.
    mail: Vec<(OwnedFd, OwnedFd)>,
}

impl Group {
    pub(super) fn open(config: &Config) -> Result<Self> {
        let mut group =
            Self { connection_limits: config.connection_limits, shared: Vec::new(), mail: Vec::new() };
        for listen in &config.listen {
            let shared = match listen.protocol {
                Protocol::Sctp => None,
                _ => Some(group.open_first(listen)?),
            };
            group.shared.push(shared);
        }
        for _ in 0..config.processes {
            let pair = mail().context("creating sockets between the worker processes")?;
            group.mail.push(pair);
        }
        (0..config.processes).try_for_each(|worker| group.reopen(worker))?;
        Ok(group)
    }

    /// Opens the first socket, which must have the address alone. Only afterwards can further ones join, from
    /// the same user.
    fn open_first(&self, listen: &Listen) -> Result<Shared> {
        let mut first = self.bind(listen, listen.address, false);
        for _ in 1..TRIES {
            if !first.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse) {
                break;
            }
            #[allow(clippy::disallowed_methods, reason = "nobody tells when an address is free")]
            std::thread::sleep(LET_GO);
            first = self.bind(listen, listen.address, false);
        }
        let opened = first.and_then(|socket| {
            socket.set_reuse_port(true)?;
            let address = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
            Ok((socket, address))
        });
        let (socket, address) = opened.map_err(|error| not_listening(listen, error))?;
        let bound = Listen { address, ..listen.clone() };
        Ok(Shared { listen: bound, configured: listen.address, sockets: vec![Some(socket.into())] })
    }

    fn bind(&self, listen: &Listen, address: SocketAddr, joins: bool) -> io::Result<Socket> {
        if listen.protocol != Protocol::Udp {
            return accept::bind(address, &self.connection_limits, joins);
        }
        Ok(bind_udp(address, joins)?.into())
    }

    /// Opens the sockets of a worker that are closed.
    pub(super) fn reopen(&mut self, worker: u8) -> Result<()> {
        let place = usize::from(worker);
        for number in 0..self.shared.len() {
            let Some(shared) = self.shared.get(number).and_then(Option::as_ref) else { continue };
            if shared.sockets.get(place).is_some_and(Option::is_some) {
                continue;
            }
            let opened = self.bind(&shared.listen, shared.listen.address, true);
            let opened = opened.map_err(|error| not_listening(&shared.listen, error))?;
            if let Some(Some(shared)) = self.shared.get_mut(number) {
                if shared.sockets.len() <= place {
                    shared.sockets.resize_with(place + 1, || None);
                }
                if let Some(free) = shared.sockets.get_mut(place) {
                    *free = Some(opened.into());
                }
            }
        }
        Ok(())
    }

    /// Closes the sockets of a worker that doesn't return soon, so that its input goes to the others.
    pub(super) fn close(&mut self, worker: u8) {
        for shared in self.shared.iter_mut().flatten() {
            if let Some(place) = shared.sockets.get_mut(usize::from(worker)) {
                *place = None;
            }
        }
    }

    /// The sockets for a worker: its mail, the mail of all workers, and its listening sockets with their
    /// descriptions.
    pub(super) fn of(&self, worker: u8) -> (Vec<BorrowedFd<'_>>, Vec<Handed>) {
        let place = usize::from(worker);
        let own = self.mail.get(place).map(|(own, _)| own.as_fd());
        let to = self.mail.iter().map(|(_, to)| to.as_fd());
        let mut descriptors: Vec<BorrowedFd<'_>> = own.into_iter().chain(to).collect();
        let mut handed = Vec::new();
        for shared in self.shared.iter().flatten() {
            let Some(Some(socket)) = shared.sockets.get(place) else { continue };
            descriptors.push(socket.as_fd());
            let (protocol, bound) = (shared.listen.protocol.name().to_owned(), shared.listen.address);
            handed.push(Handed { protocol, address: shared.configured, bound });
        }
        (descriptors, handed)
    }

    /// The listening addresses; `None` for SCTP.
    pub(super) fn addresses(&self) -> Vec<Option<SocketAddr>> {
        self.shared.iter().map(|shared| shared.as_ref().map(|shared| shared.listen.address)).collect()
    }
}

fn not_listening(listen: &Listen, error: io::Error) -> anyhow::Error {
    let (name, address) = (listen.protocol.name(), listen.address);
    let hint = hints::listening(&error);
    anyhow::Error::new(error).context(format!("listening on {name} {address}{hint}"))
}

/// Creates a socket pair that transfers whole messages, in order and without loss.
fn mail() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (own, to) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    for end in [&own, &to] {
        let end = socket2::SockRef::from(end);
        // The system limits this to its maximum.
        end.set_send_buffer_size(MAIL)?;
        end.set_recv_buffer_size(MAIL)?;
    }
    Ok((own, to))
}
