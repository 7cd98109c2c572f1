//! WebSocket (RFC 7118): the handshake, and extracting messages from frames. The connection itself is handled
//! by `tcp`.

use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::time::Duration;

use strandline_tls::Wire;
use tungstenite::error::{Error, ProtocolError};
use tungstenite::handshake::derive_accept_key;
use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{Request, create_response};

use crate::codec::Datagram;
use crate::server::hub::Hub;
use crate::server::socket::{Connection, Connections, OpenedFrame, WebSocket, frame};
use crate::server::transports::WebSockets;
use crate::transaction::Flow;

use super::framer::{End, Framer};
use super::reader::with_room;

/// Maximum size of a handshake, in bytes.
const HEAD_MAX: usize = 8192;

/// Waits for the handshake and answers it. Returns the bytes that follow it.
///
/// # Errors
/// Returns an error if it doesn't ask for SIP; the client has then received the reason.
pub(super) async fn greet(wire: &Wire, hub: &Hub) -> io::Result<Vec<u8>> {
    let settings = Rc::clone(&hub.transports.websocket.borrow());
    greet_by(wire, &hub.transports.connections, &settings).await
}

/// While waiting, this keeps only the received part of the handshake.
async fn greet_by(wire: &Wire, connections: &Connections, settings: &WebSockets) -> io::Result<Vec<u8>> {
    let (mut head, share) = (Vec::new(), connections.head());
    loop {
        std::future::poll_fn(|context| wire.poll_read_ready(context)).await?;
        let found = with_room(|room| match wire.try_read(room) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) if head.is_empty() => Ok(look(room.get(..len).unwrap_or(&[]), settings)),
            Ok(len) => Ok(look(&[&head[..], room.get(..len).unwrap_or(&[])].concat(), settings)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Found::Nothing),
            Err(error) => Err(error),
        });
        match found? {
            Found::Nothing => {}
            Found::Half(kept) => {
                head = kept;
                if !connections.keeps_head(&share, head.capacity()) {
                    return Err(io::Error::other("incomplete handshakes exceed the memory limit"));
                }
            }
            Found::Whole { answer, rest } => {
                write(wire, answer.as_bytes()).await?;
                return Ok(rest);
            }
            Found::None(refusal) => {
                write(wire, refusal.text().as_bytes()).await?;
                wire.close();
                return Err(io::Error::other(refusal.why));
            }
        }
    }
}

/// The state of a handshake.
enum Found {
    /// No more bytes have arrived.
    Nothing,
    /// The handshake is incomplete.
    Half(Vec<u8>),
    /// A handshake that asks for SIP, and the bytes that follow it.
    Whole { answer: String, rest: Vec<u8> },
    /// The handshake is rejected.
    None(Refusal),
}

fn look(came: &[u8], settings: &WebSockets) -> Found {
    match Request::try_parse(came) {
        Ok(None) if came.len() < HEAD_MAX => Found::Half(came.to_vec()),
        Ok(Some((len, request))) if len <= HEAD_MAX => match accept(&request, settings) {
            Ok(answer) => Found::Whole { answer, rest: came.get(len..).unwrap_or(&[]).to_vec() },
            Err(refusal) => Found::None(refusal),
        },
        Ok(_) => Found::None(TOO_LARGE),
        Err(error) => Found::None(Refusal::of(&error)),
    }
}

/// Why a handshake is rejected.
struct Refusal {
    status: &'static str,
    /// Further header lines.
    headers: &'static str,
    why: &'static str,
}

const TOO_LARGE: Refusal = Refusal {
    status: "431 Request Header Fields Too Large",
    headers: "",
    why: "The headers of the handshake are too large.",
};
const NO_SIP: Refusal = Refusal {
    status: "400 Bad Request",
    headers: "",
    why: "The subprotocol must be sip: Sec-WebSocket-Protocol: sip (RFC 7118).",
};
const FOREIGN: Refusal = Refusal {
    status: "403 Forbidden",
    headers: "",
    why: "Pages from there may not connect: see websocket.origins of the server's configuration.",
};

impl Refusal {
    fn of(error: &Error) -> Self {
        let upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n";
        let (status, headers, why) = match error {
            Error::Protocol(ProtocolError::WrongHttpMethod) => {
                ("405 Method Not Allowed", "Allow: GET\r\n", "A handshake is a GET.")
            }
            Error::Protocol(ProtocolError::WrongHttpVersion) => {
                ("505 HTTP Version Not Supported", "", "A handshake needs HTTP/1.1.")
            }
            Error::Protocol(
                ProtocolError::MissingConnectionUpgradeHeader | ProtocolError::MissingUpgradeWebSocketHeader,
            ) => ("426 Upgrade Required", upgrade, "Here is SIP over WebSocket (RFC 7118)."),
            Error::Protocol(ProtocolError::MissingSecWebSocketVersionHeader) => (
                "426 Upgrade Required",
                "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n",
                "The version of WebSocket must be 13.",
            ),
            _ => ("400 Bad Request", "", "The handshake makes no sense (RFC 6455 section 4.2.1)."),
        };
        Self { status, headers, why }
    }

    fn text(&self) -> String {
        let Self { status, headers, why } = self;
        let len = why.len() + 1;
        format!(
            "HTTP/1.1 {status}\r\n{headers}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len}\r\n\
             Connection: close\r\n\r\n{why}\n"
        )
    }
}

/// The response to a handshake that asks for SIP.
fn accept(request: &Request, settings: &WebSockets) -> Result<String, Refusal> {
    create_response(request).map_err(|error| Refusal::of(&error))?;
    let headers = request.headers();
    let offered = headers.get_all("Sec-WebSocket-Protocol").iter().filter_map(|value| value.to_str().ok());
    if !offered.flat_map(|value| value.split(',')).any(|name| name.trim().eq_ignore_ascii_case("sip")) {
        return Err(NO_SIP);
    }
    if let Some(origin) = headers.get("Origin").filter(|_| !settings.origins.is_empty()) {
        let allowed = |allowed: &String| origin.as_bytes().eq_ignore_ascii_case(allowed.as_bytes());
        if !settings.origins.iter().any(allowed) {
            return Err(FOREIGN);
        }
    }
    let key = headers.get("Sec-WebSocket-Key").map_or(&b""[..], |key| key.as_bytes());
    let accept = derive_accept_key(key);
    Ok(format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: sip\r\n\r\n"
    ))
}

async fn write(wire: &Wire, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() || !wire.try_flush()? {
        match wire.try_write(rest) {
            Ok(len) => rest = rest.get(len..).unwrap_or(&[]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => wire.tcp().writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Extracts messages from the frames of a connection. Only the bytes of an incomplete frame are kept.
pub(super) struct Frames {
    flow: Flow,
    connection: Rc<Connection>,
    begun: Vec<u8>,
    /// True if a fragmented message is incomplete.
    unfinished: bool,
    /// Number of bytes in the fragments received so far.
    parts: usize,
    message_bytes_max: usize,
    settings: Rc<WebSockets>,
    /// True if a ping was sent and nothing was received since.
    ping_sent: bool,
}

impl Frames {
    /// Creates the state of a connection. `rest` holds the bytes that follow the handshake.
    pub(super) fn new(hub: &Hub, connection: &Rc<Connection>, rest: Vec<u8>) -> Self {
        let limits = hub.service.borrow().setup().message_limits();
        let message_bytes_max = limits.header_bytes_max + limits.body_bytes_max;
        connection.carry_frames(WebSocket::new(message_bytes_max));
        Self {
            flow: connection.flow(),
            connection: Rc::clone(connection),
            begun: rest,
            unfinished: false,
            parts: 0,
            message_bytes_max,
            settings: Rc::clone(&hub.transports.websocket.borrow()),
            ping_sent: false,
        }
    }

    /// Takes all complete frames, and returns their total length; `None` if the connection must be closed.
    fn cut(&mut self, hub: &Rc<Hub>, bytes: &[u8]) -> Option<usize> {
        let (mut used, mut on, mut pings) = (0, true, 0);
        hub.take_in(|taking| {
            while on {
                let rest = bytes.get(used..).unwrap_or(&[]);
                let found = match frame(rest, self.message_bytes_max) {
                    Ok(Some(found)) => found,
                    Ok(None) => return,
                    Err(code) => {
                        hub.transports
                            .connections
                            .with_frames(&self.connection, |frames, out| frames.close(code, out));
                        on = false;
                        return;
                    }
                };
                self.unfinished = found.unfinished.unwrap_or(self.unfinished);
                self.parts = if self.unfinished { self.parts + found.len } else { 0 };
                used += found.len;
                let whole = rest.get(..found.len).unwrap_or(&[]);
                let opened = hub
                    .transports
                    .connections
                    .with_frames(&self.connection, |frames, out| frames.open(whole, out));
                match opened {
                    Some(OpenedFrame::Message(message)) => {
                        self.connection.life.on_message();
                        match Datagram::of(&message) {
                            Datagram::Sip => taking.push(self.flow, &message, || message.clone()),
                            Datagram::KeepAlive if &message[..] == b"\r\n\r\n" => pings += 1,
                            Datagram::KeepAlive | Datagram::Stun => {}
                        }
                    }
                    Some(OpenedFrame::Nothing) => {}
                    Some(OpenedFrame::End) | None => on = false,
                }
            }
        });
        hub.transports.connections.flush();
        if pings > 0 {
            hub.with(|service, _| {
                (0..pings).for_each(|_| service.output_mut().out.push(self.flow, None, b"\r\n"))
            });
        }
        on.then_some(used)
    }
}

impl Framer for Frames {
    fn is_waiting(&self) -> bool {
        self.unfinished || !self.begun.is_empty()
    }

    fn begin(&mut self, hub: &Rc<Hub>) -> Result<(), End> {
        self.take(hub, &[])
    }

    fn take(&mut self, hub: &Rc<Hub>, read: &[u8]) -> Result<(), End> {
        self.ping_sent = false;
        self.connection.life.on_sign();
        let mut kept = std::mem::take(&mut self.begun);
        if kept.is_empty() {
            let used = self.cut(hub, read).ok_or(End)?;
            kept = read.get(used..).unwrap_or(&[]).to_vec();
        } else {
            // An incomplete frame grows in place. Copying it for each read would take quadratic time if the
            // peer sends slowly.
            kept.extend_from_slice(read);
            let used = self.cut(hub, &kept).ok_or(End)?;
            if used > 0 {
                kept = kept.get(used..).unwrap_or(&[]).to_vec();
            }
        }
        self.begun = kept;
        self.connection.keeps(self.begun.len() + self.parts);
        Ok(())
    }

    fn idle_max(&self) -> Option<Duration> {
        self.settings.ping
    }

    fn on_idle(&mut self, hub: &Rc<Hub>) -> bool {
        if std::mem::replace(&mut self.ping_sent, true) {
            tracing::debug!(peer = %self.connection.peer, "connection closed: no answer to a WebSocket ping");
            return false;
        }
        let sent = hub.transports.connections.with_frames(&self.connection, |frames, out| frames.ping(out));
        hub.transports.connections.flush();
        sent == Some(true)
    }

    fn end(self, _: &Rc<Hub>) {}
}

#[cfg(any(test, feature = "fuzzing"))]
pub(in crate::server) mod fuzzing;
#[cfg(test)]
mod tests;
