//! Via (RFC 3261 sections 18.2 and 20.42, RFC 3581, RFC 5923, RFC 7339).

use core::net::IpAddr;

use crate::codec::cursor::{Cursor, Result, Span};
use crate::codec::error::{Error, ErrorKind};
use crate::codec::index::Index;
use crate::codec::top_via::TopVia;
use crate::codec::transport::Transport;
use crate::codec::uri::host::{Host, ipv6};
use crate::codec::uri::sip::port;

use super::params::{ParamValue, Params, same};
use super::values::{Element, sealed};

/// One value of Via: `SIP/2.0/UDP host:port;branch=...`
#[derive(Debug, Clone, Copy)]
pub struct Via<'a> {
    /// The transport over which the message was sent.
    pub transport: Transport<'a>,
    /// The sender's host, as the sender states it.
    pub host: Host<'a>,
    /// The port on which the sender expects responses, if stated.
    pub port: Option<u16>,
    /// All parameters.
    pub params: Params<'a>,
    /// `branch`: see [`branch_id`](Self::branch_id).
    pub branch: Option<&'a [u8]>,
    /// `received`: the source address of the message, added by the receiver if it differs from the sender's
    /// host.
    pub received: Option<IpAddr>,
    /// `rport` (RFC 3581). `Some(None)` asks the receiver to fill in the source port.
    pub rport: Option<Option<u16>>,
    /// `oc` (RFC 7339): the sender asks for overload feedback.
    pub oc: bool,
    /// `alias` (RFC 5923): the receiver may send its own requests over this connection.
    pub alias: bool,
}

/// The prefix of every branch that is a unique transaction identifier (RFC 3261 section 8.1.1.7).
pub const MAGIC_COOKIE: &[u8] = b"z9hG4bK";

impl<'a> Via<'a> {
    /// The part of the branch after the magic cookie. `None` for a branch of RFC 2543, which alone doesn't
    /// identify a transaction, and if nothing follows the cookie.
    #[must_use]
    pub fn branch_id(&self) -> Option<&'a [u8]> {
        let cookie = self.branch?.get(..MAGIC_COOKIE.len())?;
        let id = self.branch?.get(MAGIC_COOKIE.len()..)?;
        if cookie.eq_ignore_ascii_case(MAGIC_COOKIE) && !id.is_empty() { Some(id) } else { None }
    }

    /// `maddr`: a multicast address or host to which responses are sent.
    #[must_use]
    pub fn maddr(&self) -> Option<&'a [u8]> {
        self.params.value(b"maddr")
    }

    /// The `ttl` of multicast.
    ///
    /// # Errors
    /// Returns an error if it is not a number up to 255.
    pub fn ttl(&self) -> Result<Option<u8>> {
        let ttl = self.params.number(b"ttl")?;
        ttl.map(|ttl| u8::try_from(ttl).map_err(|_| Error::new(ErrorKind::TooLarge, 0))).transpose()
    }

    /// Takes only the protocol and the sender, which suffice to address a response even if the parameters are
    /// malformed. The version is not checked: an unknown version is found in the first line and answered with
    /// 505.
    pub(crate) fn head(cursor: &mut Cursor<'a>) -> Result<Host<'a>> {
        sent_protocol(cursor)?;
        sent_by(cursor).map(|(host, ..)| host)
    }

    /// Parses the first value of a line for storage. Returns `None` if it is malformed or its transport is
    /// unknown; it is then parsed on access.
    pub(crate) fn keep(mut cursor: Cursor<'_>) -> Option<TopVia> {
        cursor.skip_space();
        let (via, placed) = Via::take_placed(&mut cursor).ok()?;
        cursor.finish_element().ok()?;
        let host = match via.host {
            Host::Name(_) => Host::Name(b""),
            Host::V4(address) => Host::V4(address),
            Host::V6(address) => Host::V6(address),
        };
        let Via { port, received, rport, oc, alias, .. } = via;
        Some(TopVia {
            transport: via.transport.without_name()?,
            host,
            name: placed.host,
            port,
            params: placed.params,
            branch: via.branch.map(|_| placed.branch),
            received: placed.received.zip(received),
            rport: placed.rport.zip(rport),
            oc,
            alias,
            after: cursor.at(),
        })
    }

    /// Restores a stored Via, with the texts of its message.
    #[inline]
    pub(crate) fn of_top(top: &TopVia, bytes: &'a [u8]) -> Self {
        let text = |(start, end): Span| bytes.get(start..end).unwrap_or(&[]);
        let host = match top.host {
            Host::Name(_) => Host::Name(text(top.name)),
            address => address,
        };
        Self {
            transport: top.transport,
            host,
            port: top.port,
            params: Params::taken(text(top.params)),
            branch: top.branch.map(text),
            received: top.received.map(|(_, address)| address),
            rport: top.rport.map(|(_, port)| port),
            oc: top.oc,
            alias: top.alias,
        }
    }

    /// Takes a Via, and returns the positions of its parts as well.
    #[inline(always)]
    fn take_placed(cursor: &mut Cursor<'a>) -> Result<(Self, Placed)> {
        // A local copy can stay in registers.
        let mut place = *cursor;
        let (transport, known) = sent_protocol(&mut place)?;
        if !known {
            return Err(cursor.error(ErrorKind::Protocol));
        }
        let (host, port, host_placed) = sent_by(&mut place)?;
        let mut seen = Seen::default();
        let mut placed = Placed { host: host_placed, ..Placed::default() };
        let (params, params_placed) =
            Params::take_placed(&mut place, |name, value, span| seen.see(name, value, span, &mut placed))?;
        placed.params = params_placed;
        *cursor = place;
        let Seen { branch, received, rport, oc, alias } = seen;
        Ok((Self { transport, host, port, params, branch, received, rport, oc, alias }, placed))
    }
}

/// The positions of the parts of a Via.
#[derive(Default)]
struct Placed {
    host: Span,
    params: Span,
    branch: Span,
    received: Option<Span>,
    rport: Option<Span>,
}

/// The parameters that the server uses.
#[derive(Default)]
struct Seen<'a> {
    branch: Option<&'a [u8]>,
    received: Option<IpAddr>,
    rport: Option<Option<u16>>,
    oc: bool,
    alias: bool,
}

impl<'a> Seen<'a> {
    #[inline(always)]
    fn see(
        &mut self,
        name: &'a [u8],
        value: Option<ParamValue<'a>>,
        (start, end): Span,
        placed: &mut Placed,
    ) -> core::result::Result<(), ErrorKind> {
        // Names are distinguished by their length first, because this runs for every message.
        match name.len() {
            6 if same(name, b"branch") => {
                let Some(ParamValue::Token(branch)) = value else { return Err(ErrorKind::Branch) };
                placed.branch = (end - branch.len(), end);
                if self.branch.replace(branch).is_some() {
                    return Err(ErrorKind::ParameterRepeated);
                }
            }
            8 if same(name, b"received") => {
                let text = value.ok_or(ErrorKind::Host)?;
                placed.received = Some((start, end));
                if self.received.replace(address(text.as_bytes())?).is_some() {
                    return Err(ErrorKind::ParameterRepeated);
                }
            }
            5 if same(name, b"rport") => {
                placed.rport = Some((start, end));
                let port = value.map(|text| whole_port(text.as_bytes())).transpose()?;
                if self.rport.replace(port).is_some() {
                    return Err(ErrorKind::ParameterRepeated);
                }
            }
            5 => self.alias |= same(name, b"alias"),
            2 => self.oc |= same(name, b"oc"),
            _ => {}
        }
        Ok(())
    }
}

/// Takes `SIP/2.0/transport`, with optional white space around the slashes. The second value is true if the
/// version is 2.0.
#[inline]
fn sent_protocol<'a>(cursor: &mut Cursor<'a>) -> Result<(Transport<'a>, bool)> {
    match cursor.rest().first_chunk() {
        Some(b"SIP/2.0/UDP ") => {
            cursor.advance(11);
            return Ok((Transport::Udp, true));
        }
        Some(b"SIP/2.0/TCP ") => {
            cursor.advance(11);
            return Ok((Transport::Tcp, true));
        }
        _ => {}
    }
    let start = *cursor;
    let name = cursor.token()?;
    slash(cursor)?;
    let version = cursor.token()?;
    slash(cursor)?;
    let transport = cursor.token()?;
    if !name.eq_ignore_ascii_case(b"SIP") {
        return Err(start.error(ErrorKind::Protocol));
    }
    Ok((Transport::from_bytes(transport), version == b"2.0"))
}

#[inline]
fn slash(cursor: &mut Cursor<'_>) -> Result<()> {
    cursor.skip_space();
    if !cursor.eat(b'/') {
        return Err(cursor.error(ErrorKind::Protocol));
    }
    cursor.skip_space();
    Ok(())
}

/// Takes white space, the sender and its optional port. Returns the sender, the port and the sender's
/// position.
#[inline(always)]
fn sent_by<'a>(cursor: &mut Cursor<'a>) -> Result<(Host<'a>, Option<u16>, Span)> {
    if !cursor.skip_space() {
        return Err(cursor.error(ErrorKind::Protocol));
    }
    let start = cursor.at();
    let host = Host::take(cursor)?;
    let after = *cursor;
    let span = (start, after.at());
    cursor.skip_space();
    if cursor.peek() != Some(b':') {
        *cursor = after;
        return Ok((host, None, span));
    }
    blank_port(cursor).map(|port| (host, port, span))
}

/// Takes `: port`, with white space after the colon.
#[inline(always)]
fn blank_port(cursor: &mut Cursor<'_>) -> Result<Option<u16>> {
    if matches!(cursor.rest(), [b':', b' ' | b'\t' | b'\r', ..]) {
        cursor.advance(1);
        cursor.skip_space();
        let port = cursor.number(u32::from(u16::MAX));
        return port.map(|port| Some(port as u16)).map_err(|error| Error { kind: ErrorKind::Port, ..error });
    }
    port(cursor)
}

fn whole_port(text: &[u8]) -> core::result::Result<u16, ErrorKind> {
    let mut cursor = Cursor::new(text, 0);
    let port = cursor.number(u32::from(u16::MAX)).map_err(|_| ErrorKind::Port)?;
    if cursor.rest().is_empty() { Ok(port as u16) } else { Err(ErrorKind::Port) }
}

/// Parses an address with or without brackets: both occur (RFC 5118 section 4.5).
fn address(text: &[u8]) -> core::result::Result<IpAddr, ErrorKind> {
    if text.contains(&b':') && text.first() != Some(&b'[') {
        return ipv6(text).map(IpAddr::V6).ok_or(ErrorKind::Host);
    }
    Host::parse(text).ok().and_then(|host| host.ip()).ok_or(ErrorKind::Host)
}

impl sealed::Sealed for Via<'_> {}

impl<'a> Element<'a> for Via<'a> {
    #[inline]
    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        Self::take_placed(cursor).map(|(via, _)| via)
    }

    fn parsed(bytes: &'a [u8], index: &Index) -> Option<(Self, usize)> {
        index.top_via().map(|top| (Self::of_top(top, bytes), top.after))
    }
}
