//! A connection with or without TLS.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};
use std::task::{Context, Poll};

use rustls::{ClientConnection, Connection, ServerConnection};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::settings::{ClientTls, ServerTls};

/// A connection that is read and written without blocking, by tasks of one thread. It buffers only outgoing
/// data that TLS has already encrypted.
#[derive(Debug)]
pub struct Wire {
    tcp: TcpStream,
    /// The TLS session; `None` without TLS.
    session: Option<Box<RefCell<Connection>>>,
}

impl Wire {
    /// Creates a connection without TLS.
    #[must_use]
    pub const fn plain(tcp: TcpStream) -> Self {
        Self { tcp, session: None }
    }

    /// Creates the server's side of a TLS connection. The handshake proceeds as the connection is read and
    /// written.
    ///
    /// # Errors
    /// If the settings can't be used.
    pub fn accepted(tcp: TcpStream, tls: &ServerTls) -> io::Result<Self> {
        let session = ServerConnection::new(tls.0.clone()).map_err(io::Error::other)?;
        Ok(Self::with(tcp, session.into()))
    }

    /// Creates the client's side of a TLS connection to a server whose certificate must be for `name`, a
    /// domain or an address.
    ///
    /// # Errors
    /// If `name` is neither a domain nor an address, or the settings can't be used.
    pub fn opened(tcp: TcpStream, tls: &ClientTls, name: &str) -> io::Result<Self> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(tls.0.clone(), name).map_err(io::Error::other)?;
        Ok(Self::with(tcp, session.into()))
    }

    fn with(tcp: TcpStream, mut session: Connection) -> Self {
        // The caller keeps data that can't be sent yet: see `try_write`.
        session.set_buffer_limit(None);
        Self { tcp, session: Some(Box::new(RefCell::new(session))) }
    }

    /// Reads and writes until the handshake is complete. No application data may have been written before.
    ///
    /// # Errors
    /// If the peer isn't trusted or the connection ends.
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

    /// Returns the underlying TCP connection.
    #[must_use]
    pub const fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Returns whether a TLS handshake is in progress.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.borrow().is_handshaking())
    }

    /// Returns the certificate that the peer has proved to own.
    #[must_use]
    pub fn peer_certificate(&self) -> Option<CertificateDer<'static>> {
        let session = self.session.as_ref()?.borrow();
        session.peer_certificates()?.first().cloned().map(CertificateDer::into_owned)
    }

    /// Waits until there may be something to read; [`try_read`](Self::try_read) then finds out.
    pub fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp.poll_read_ready(context)
    }

    /// Reads the data that has arrived; returns 0 at the end of the connection. `room` must hold everything
    /// that TLS has decrypted: 32 KiB are enough.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if nothing has arrived; any other error ends the connection.
    /// [`UnexpectedEof`](ErrorKind::UnexpectedEof) says that TCP ended before TLS did (RFC 8446 section 6.1): anybody
    /// on the way may have cut off data, which matters if the end of the connection delimits it.
    pub fn try_read(&self, room: &mut [u8]) -> io::Result<usize> {
        let Some(session) = &self.session else { return self.try_read_plain(room) };
        let session = &mut *session.borrow_mut();
        loop {
            match decrypted(session, room) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            // At the end of TCP the reader knows whether the peer's close_notify alert came before.
            if session.read_tls(&mut Sealed(&self.tcp))? == 0 {
                return decrypted(session, room);
            }
            process(session, &self.tcp)?;
        }
    }

    fn try_read_plain(&self, room: &mut [u8]) -> io::Result<usize> {
        let read = self.tcp.try_read(room)?;
        if cfg!(target_os = "linux") && (1..room.len()).contains(&read) {
            // With epoll, a read shorter than the buffer means that the socket is empty and that new data
            // will be reported. Clearing the readiness now saves the system call of the next attempt.
            let _ = self.tcp.try_io(Interest::READABLE, || Err::<(), _>(ErrorKind::WouldBlock.into()));
        }
        Ok(read)
    }

    /// Writes as much as is possible without blocking, and returns the number of bytes accepted. TLS accepts
    /// all or nothing, and everything until the [`handshake`](Self::handshake) is complete.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if nothing can be written now; any other error ends the
    /// connection.
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

    /// Writes data that was accepted but not sent yet. Returns false if some is left.
    ///
    /// # Errors
    /// If the connection ends.
    pub fn try_flush(&self) -> io::Result<bool> {
        match &self.session {
            None => Ok(true),
            Some(session) => flush(&mut session.borrow_mut(), &self.tcp),
        }
    }

    /// Sends TLS's close_notify alert.
    pub fn close(&self) {
        if let Some(session) = &self.session {
            let session = &mut *session.borrow_mut();
            session.send_close_notify();
            // If the alert can't be sent, the peer sees that the connection was cut off.
            let _ = flush(session, &self.tcp);
        }
    }
}

/// Reads data that was decrypted.
fn decrypted(session: &mut Connection, room: &mut [u8]) -> io::Result<usize> {
    session.reader().read(room).map_err(|error| match error.kind() {
        kind @ ErrorKind::UnexpectedEof => {
            io::Error::new(kind, "the connection ended without TLS close_notify")
        }
        _ => error,
    })
}

/// Decrypts the data that has arrived. Writes handshake answers and the alert for a failed handshake; what
/// can't be sent now is sent later.
fn process(session: &mut Connection, tcp: &TcpStream) -> io::Result<()> {
    let done = session.process_new_packets();
    let flushed = flush(session, tcp);
    done.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    flushed.map(|_| ())
}

/// Writes buffered data. Returns false if some is left.
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

/// The TCP connection as TLS reads and writes it.
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
