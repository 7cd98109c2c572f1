//! A connection, with or without TLS.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};
use std::task::{Context, Poll};

use rustls::{ClientConnection, Connection, ServerConnection};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::settings::{ClientTls, ServerTls};

/// A connection to be read and written without waiting, by tasks of one thread. What is waiting to be written it keeps only
/// as far as TLS has sealed it already.
#[derive(Debug)]
pub struct Wire {
    tcp: TcpStream,
    /// None without TLS.
    session: Option<Box<RefCell<Connection>>>,
}

impl Wire {
    /// Without TLS.
    #[must_use]
    pub const fn plain(tcp: TcpStream) -> Self {
        Self { tcp, session: None }
    }

    /// With TLS, whose handshake goes on as it is read and written.
    ///
    /// # Errors
    /// If the settings are of no use.
    pub fn accepted(tcp: TcpStream, tls: &ServerTls) -> io::Result<Self> {
        let session = ServerConnection::new(tls.0.clone()).map_err(io::Error::other)?;
        Ok(Self::with(tcp, session.into()))
    }

    /// With TLS, to a server whose certificate must be for `name`, a name or an address.
    ///
    /// # Errors
    /// If the name is none, or the settings are of no use.
    pub fn opened(tcp: TcpStream, tls: &ClientTls, name: &str) -> io::Result<Self> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(tls.0.clone(), name).map_err(io::Error::other)?;
        Ok(Self::with(tcp, session.into()))
    }

    fn with(tcp: TcpStream, mut session: Connection) -> Self {
        // What doesn't go is kept by whoever writes: see `try_write`.
        session.set_buffer_limit(None);
        Self { tcp, session: Some(Box::new(RefCell::new(session))) }
    }

    /// Reads and writes until the handshake is over: nothing of the application's may have been written before.
    ///
    /// # Errors
    /// Why the peer can't be trusted, or the end of the connection.
    ///
    /// # Cancel safety
    /// It can be called again.
    pub async fn handshake(&self) -> io::Result<()> {
        let Some(session) = &self.session else { return Ok(()) };
        while session.borrow().is_handshaking() {
            if flush(&mut session.borrow_mut(), &self.tcp)? {
                std::future::poll_fn(|context| self.poll_read_ready(context)).await?;
            } else {
                self.tcp.writable().await?;
            }
            let session = &mut *session.borrow_mut();
            match session.read_tls(&mut Sealed(&self.tcp)) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => process(session, &self.tcp)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The connection beneath.
    #[must_use]
    pub const fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Has TLS begun and not come to the end of its handshake?
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.borrow().is_handshaking())
    }

    /// The certificate that the peer has proved to own.
    #[must_use]
    pub fn peer_certificate(&self) -> Option<CertificateDer<'static>> {
        let session = self.session.as_ref()?.borrow();
        session.peer_certificates()?.first().cloned().map(CertificateDer::into_owned)
    }

    /// Waits until there may be something to read; then [`try_read`](Self::try_read) says whether there is.
    pub fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp.poll_read_ready(context)
    }

    /// Reads what has come: 0 at the end. All that TLS has opened must fit into `room`: 32 KiB are enough.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if nothing has come; anything else is the end of the connection.
    pub fn try_read(&self, room: &mut [u8]) -> io::Result<usize> {
        let Some(session) = &self.session else { return self.try_read_plain(room) };
        let session = &mut *session.borrow_mut();
        loop {
            match session.reader().read(room) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            if session.read_tls(&mut Sealed(&self.tcp))? == 0 {
                return Ok(0);
            }
            process(session, &self.tcp)?;
        }
    }

    fn try_read_plain(&self, room: &mut [u8]) -> io::Result<usize> {
        let read = self.tcp.try_read(room)?;
        if cfg!(target_os = "linux") && (1..room.len()).contains(&read) {
            // With epoll, less than there was room for means that no more is there, and that more will be told: what the
            // next attempt would find out with a system call can be said now.
            let _ = self.tcp.try_io(Interest::READABLE, || Err::<(), _>(ErrorKind::WouldBlock.into()));
        }
        Ok(read)
    }

    /// Writes as much as goes without waiting, and returns how much was taken. TLS takes all or nothing, and all until the
    /// [`handshake`](Self::handshake) is over.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if nothing goes now; anything else is the end of the connection.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let Some(session) = &self.session else { return self.tcp.try_write(bytes) };
        let session = &mut *session.borrow_mut();
        if !flush(session, &self.tcp)? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let taken = session.writer().write(bytes)?;
        flush(session, &self.tcp)?;
        Ok(taken)
    }

    /// Writes what was taken and has not gone yet. False if something is left.
    ///
    /// # Errors
    /// The end of the connection.
    pub fn try_flush(&self) -> io::Result<bool> {
        match &self.session {
            None => Ok(true),
            Some(session) => flush(&mut session.borrow_mut(), &self.tcp),
        }
    }

    /// Says good-bye, as TLS wants it.
    pub fn close(&self) {
        if let Some(session) = &self.session {
            let session = &mut *session.borrow_mut();
            session.send_close_notify();
            // If it doesn't go, the end of the connection says the same.
            let _ = flush(session, &self.tcp);
        }
    }
}

/// Opens what has come. Answers of the handshake are written, and why it failed; what doesn't go now goes later.
fn process(session: &mut Connection, tcp: &TcpStream) -> io::Result<()> {
    let done = session.process_new_packets();
    let flushed = flush(session, tcp);
    done.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    flushed.map(|_| ())
}

/// False if something is left.
fn flush(session: &mut Connection, tcp: &TcpStream) -> io::Result<bool> {
    while session.wants_write() {
        match session.write_tls(&mut Sealed(tcp)) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// What TLS reads from and writes to.
struct Sealed<'a>(&'a TcpStream);

impl Read for Sealed<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(room)
    }
}

impl Write for Sealed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
