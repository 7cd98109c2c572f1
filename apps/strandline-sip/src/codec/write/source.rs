//! The source address that a receiver records in the topmost Via (RFC 3261 section 18.2.1, RFC 3581 section
//! 4).

use core::net::{IpAddr, SocketAddr};

use bytes::BytesMut;

use crate::codec::cursor::{Cursor, Span};
use crate::codec::header::params::take_param;
use crate::codec::header::values::line_cursor;
use crate::codec::header::via::Via;
use crate::codec::message::Message;
use crate::codec::name::HeaderName;
use crate::codec::uri::host::Host;

use super::via::{write_address, write_number};

/// A change of the topmost Via.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    /// Removes a parameter.
    Nothing,
    /// `;rport=port`
    Port(u16),
    /// `;received=address`
    Address(IpAddr),
}

impl Note {
    pub(crate) fn write(self, out: &mut BytesMut) {
        match self {
            Self::Nothing => {}
            Self::Port(port) => {
                out.extend_from_slice(b";rport=");
                write_number(out, u32::from(port));
            }
            Self::Address(address) => {
                out.extend_from_slice(b";received=");
                write_address(out, address);
            }
        }
    }
}

/// The start and the end of the replaced range, and the change.
pub(crate) type Noted = (usize, usize, Note);

/// The changes that record `source`, ordered by position: `received`, unless the sender itself stated this
/// address, and the port if the sender asked for it. Parameters that the Via already has were not written by
/// this server and are replaced. Also works for a Via with malformed parameters.
pub(crate) fn notes(message: &Message<'_>, source: SocketAddr) -> [Option<Noted>; 3] {
    if let Some(top) = message.index.top_via() {
        let (received, rport) = (top.received.map(|(span, _)| span), top.rport.map(|(span, _)| span));
        return notes_at(top.host.ip(), received, rport, top.params.1, source);
    }
    let line = message.index.first(HeaderName::Via);
    let cursor = line.and_then(|number| line_cursor(message.bytes, message.index, number));
    cursor.and_then(|cursor| notes_of(cursor, source)).unwrap_or_default()
}

fn notes_of(mut cursor: Cursor<'_>, source: SocketAddr) -> Option<[Option<Noted>; 3]> {
    let (host, mut params) = ViaParams::take(&mut cursor)?;
    let (mut received, mut rport) = (None, None);
    for (name, start, end) in &mut params {
        if name.eq_ignore_ascii_case(b"received") {
            received = Some((start, end));
        } else if name.eq_ignore_ascii_case(b"rport") {
            rport = Some((start, end));
        }
    }
    Some(notes_at(host.ip(), received, rport, params.end, source))
}

/// The changes for a Via whose sender stated the address `named`, and whose parameters end at `end`.
fn notes_at(
    named: Option<IpAddr>,
    received: Option<Span>,
    rport: Option<Span>,
    end: usize,
    source: SocketAddr,
) -> [Option<Noted>; 3] {
    let address = source.ip().to_canonical();
    let needed = named.map(|ip| ip.to_canonical()) != Some(address) || rport.is_some();
    let last = needed.then_some((end, end, Note::Address(address)));
    let received_first = received < rport;
    let received = received.map(|(start, end)| (start, end, Note::Nothing));
    let rport = rport.map(|(start, end)| (start, end, Note::Port(source.port())));
    if received_first { [received, rport, last] } else { [rport, received, last] }
}

/// The ranges of the parameters of the topmost Via whose names match `wanted`, each with its semicolon. In a
/// Via with malformed parameters it stops at the first of these.
pub(crate) fn via_param_places<'a>(
    message: &Message<'a>,
    wanted: impl Fn(&[u8]) -> bool + 'a,
) -> impl Iterator<Item = (usize, usize)> + 'a {
    let line = message.index.first(HeaderName::Via);
    let cursor = line.and_then(|number| line_cursor(message.bytes, message.index, number));
    let params = cursor.and_then(|mut cursor| ViaParams::take(&mut cursor)).map(|(_, params)| params);
    params.into_iter().flatten().filter(move |(name, ..)| wanted(name)).map(|(_, start, end)| (start, end))
}

/// Iterator over the parameters of a Via, with their ranges.
struct ViaParams<'a> {
    cursor: Cursor<'a>,
    /// The end of the last parameter.
    end: usize,
}

impl<'a> ViaParams<'a> {
    #[inline]
    fn take(cursor: &mut Cursor<'a>) -> Option<(Host<'a>, Self)> {
        cursor.skip_space();
        let host = Via::head(cursor).ok()?;
        Some((host, Self { cursor: *cursor, end: cursor.at() }))
    }
}

impl<'a> Iterator for ViaParams<'a> {
    type Item = (&'a [u8], usize, usize);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.cursor.skip_space();
        let start = self.end;
        if self.cursor.peek() != Some(b';') {
            return None;
        }
        let (name, _) = take_param(&mut self.cursor).ok()?;
        self.end = self.cursor.at();
        Some((name, start, self.end))
    }
}

#[cfg(test)]
mod tests;
