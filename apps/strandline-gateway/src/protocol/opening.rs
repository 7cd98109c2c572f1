//! The first message of the side that opens a stream.

use std::net::SocketAddr;

use super::destination::{Destination, Host};
use super::fields::{
    ADDRESS, HeaderReader, HeaderWriter, LISTENER, Malformed, NAME, SOURCE, STATES, TOKEN, read_address,
    read_number, skip,
};

const CONNECT: u8 = 1;
const LISTEN: u8 = 2;
const ARRIVED: u8 = 3;
const FLOW: u8 = 4;
const REPORT: u8 = 5;
const MOVING: u8 = 6;
const LISTEN_UDP: u8 = 7;
const ARRIVED_FLOW: u8 = 8;

/// What a stream is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Opening {
    /// The receiver connects to a TCP server. `source` is the address of the client.
    Connect { to: Destination, source: Option<SocketAddr> },
    /// The receiver listens on TCP as long as the stream is open. `token` names the connections that it accepts. If
    /// `has_states`, it says in messages of one byte when its socket fails (1), and when it listens again (0).
    Listen { at: SocketAddr, token: u32, has_states: bool },
    /// The sender has accepted a connection where the receiver asked it to listen.
    Accepted { token: u32, source: Option<SocketAddr> },
    /// The receiver sends UDP datagrams, and receives some, as long as the stream is open. `token` is that of
    /// the flow's messages. The data is the first datagram.
    Flow { to: Destination, source: Option<SocketAddr>, token: u32 },
    /// As [`Listen`](Self::Listen), on UDP. `token` names the flows of its clients.
    ListenUdp { at: SocketAddr, token: u32, has_states: bool },
    /// As [`Flow`](Self::Flow), of a client of the socket on which the receiver asked the sender to listen:
    /// `listener` is the token of that.
    AcceptedFlow { listener: u32, source: Option<SocketAddr>, token: u32 },
    /// The receiver says how its direction of the association does, as long as the stream is open: in messages, each a
    /// [`Report`](super::Report).
    Report,
    /// The sender hands over to another process: the receiver sets up a new association for what is new.
    GoAway,
}

impl Opening {
    /// Returns whether it opens a UDP flow.
    pub(crate) const fn is_flow(&self) -> bool {
        matches!(self, Self::Flow { .. } | Self::AcceptedFlow { .. })
    }

    /// Returns the message, with data of the application behind it.
    pub(crate) fn encode(&self, data: &[u8]) -> Vec<u8> {
        let kind = match self {
            Self::Connect { .. } => CONNECT,
            Self::Listen { .. } => LISTEN,
            Self::Accepted { .. } => ARRIVED,
            Self::Flow { .. } => FLOW,
            Self::Report => REPORT,
            Self::GoAway => MOVING,
            Self::ListenUdp { .. } => LISTEN_UDP,
            Self::AcceptedFlow { .. } => ARRIVED_FLOW,
        };
        let mut header = HeaderWriter::new(kind, data.len());
        match self {
            Self::Connect { to, .. } | Self::Flow { to, .. } => match &to.host {
                Host::Ip(ip) => header.address(ADDRESS, SocketAddr::new(*ip, to.port)),
                Host::Name(name) => header.field(NAME, &[&to.port.to_be_bytes(), name.as_bytes()]),
            },
            Self::Listen { at, .. } | Self::ListenUdp { at, .. } => header.address(ADDRESS, *at),
            Self::AcceptedFlow { listener, .. } => header.field(LISTENER, &[&listener.to_be_bytes()]),
            Self::Accepted { .. } | Self::Report | Self::GoAway => {}
        }
        if let Self::Listen { token, .. }
        | Self::ListenUdp { token, .. }
        | Self::Accepted { token, .. }
        | Self::Flow { token, .. }
        | Self::AcceptedFlow { token, .. } = self
        {
            header.field(TOKEN, &[&token.to_be_bytes()]);
        }
        if let Self::Connect { source: Some(source), .. }
        | Self::Accepted { source: Some(source), .. }
        | Self::Flow { source: Some(source), .. }
        | Self::AcceptedFlow { source: Some(source), .. } = self
        {
            header.address(SOURCE, *source);
        }
        if let Self::Listen { has_states: true, .. } | Self::ListenUdp { has_states: true, .. } = self {
            header.field(STATES, &[]);
        }
        header.finish(data)
    }

    /// Parses a message. Returns the opening and the length of its header, behind which data of the application begins.
    ///
    /// # Errors
    /// If the message is malformed, or has something that the receiver must know and doesn't.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, usize), Malformed> {
        let mut header = HeaderReader::new(bytes)?;
        let (mut address, mut name, mut source) = (None, None, None);
        let (mut token, mut listener, mut has_states) = (None, None, false);
        while let Some((kind, value)) = header.next()? {
            match kind {
                ADDRESS => address = Some(read_address(kind, value)?),
                NAME => name = Some(read_name(value)?),
                SOURCE => source = Some(read_address(kind, value)?),
                TOKEN => token = Some(read_number(kind, value)?),
                LISTENER => listener = Some(read_number(kind, value)?),
                STATES => has_states = true,
                other => skip(other)?,
            }
        }
        let token = token.ok_or(Malformed::Field(TOKEN));
        let at = address.ok_or(Malformed::Field(ADDRESS));
        let to = || {
            let to = name.or_else(|| address.map(Destination::of));
            to.filter(|to| to.port != 0).ok_or(Malformed::Field(ADDRESS))
        };
        let opening = match header.kind {
            CONNECT => Self::Connect { to: to()?, source },
            FLOW => Self::Flow { to: to()?, source, token: token? },
            LISTEN => Self::Listen { at: at?, token: token?, has_states },
            LISTEN_UDP => Self::ListenUdp { at: at?, token: token?, has_states },
            ARRIVED_FLOW => {
                let listener = listener.ok_or(Malformed::Field(LISTENER))?;
                Self::AcceptedFlow { listener, source, token: token? }
            }
            ARRIVED => Self::Accepted { token: token?, source },
            REPORT => Self::Report,
            MOVING => Self::GoAway,
            other => return Err(Malformed::Kind(other)),
        };
        Ok((opening, header.len))
    }
}

fn read_name(value: &[u8]) -> Result<Destination, Malformed> {
    let wrong = Malformed::Field(NAME);
    let (port, name) = value.split_first_chunk::<2>().ok_or(wrong)?;
    let host = std::str::from_utf8(name).ok().and_then(Host::parse).ok_or(wrong)?;
    Ok(Destination { host, port: u16::from_be_bytes(*port) })
}
