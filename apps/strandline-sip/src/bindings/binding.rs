//! A binding, and its text form in a store: a line of fields separated by tabs.

use core::net::SocketAddr;

use super::text::Text;
use crate::codec::{Uri, decimal, write_address};
use crate::transaction::{Flow, Protocol};

use super::seal::SealFlow;

/// The prefix of instances that are case-insensitive.
const UUID: &[u8] = b"urn:uuid:";

/// How requests use the flow of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowUse {
    /// The flow is not used; requests go to the contact's address.
    None,
    /// Requests use the flow while it exists, and the contact's address afterwards.
    First,
    /// Requests use the flow if the host in the contact can't be resolved.
    Last,
    /// Requests use only the flow, and the binding ends with it: the phone is behind a NAT, or asked for it
    /// (RFC 5626).
    Only,
}

/// A contact bound to a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The contact's URI as it was sent.
    pub contact: Text,
    /// The contact's parameters as they were sent, without `expires`.
    pub params: Box<[u8]>,
    /// The Call-ID of the last REGISTER request.
    pub call_id: Text,
    /// The CSeq number of that request.
    pub cseq: u32,
    /// The time at which the binding expires, in seconds since 1970-01-01.
    pub expires_at: u64,
    /// The preference, in thousandths.
    pub q: u16,
    /// The `reg-id` of RFC 5626; 0 for none.
    pub reg_id: u32,
    /// The `+sip.instance`; empty for none.
    pub instance: Box<[u8]>,
    /// The values of Path (RFC 3327), separated by commas; empty for none.
    pub path: Box<[u8]>,
    /// The flow over which it was registered.
    pub flow: Flow,
    /// How requests use the flow.
    pub flow_use: FlowUse,
    /// The number that the temporary GRUUs of its instance contain (RFC 5627); 0 if it never requested one.
    pub gruu: u64,
    /// Orders the bindings of several nodes: the later one has the larger stamp. 0 until the stamp is
    /// assigned.
    pub stamp: u64,
    /// The other node that created the binding; `None` for this node.
    pub origin: Option<Box<Origin>>,
    /// True if the node that created the binding has announced that its connection is closed. The contact may
    /// still be reachable at its address.
    pub has_ended: bool,
}

/// The node at which a phone is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The node's number in this process's table of nodes, from 1.
    pub node: u16,
    /// The node's opaque name for the flow, which only that node can resolve. Empty if the flow isn't used.
    pub token: Box<[u8]>,
}

impl Binding {
    /// Returns true if the binding has expired.
    #[must_use]
    pub const fn has_expired(&self, unix_secs: u64) -> bool {
        self.expires_at <= unix_secs
    }

    /// The number of the node that created the binding; 0 for this node.
    #[must_use]
    pub fn node(&self) -> u16 {
        self.origin.as_ref().map_or(0, |origin| origin.node)
    }

    /// Returns true if the binding has the same instance and reg-id (RFC 5626 section 6), or else the same
    /// URI.
    #[must_use]
    pub fn is_for(&self, instance: &[u8], reg_id: u32, contact: &[u8]) -> bool {
        if reg_id > 0 || self.reg_id > 0 {
            return reg_id == self.reg_id && is_same_instance(instance, &self.instance);
        }
        if *contact == *self.contact {
            return true;
        }
        if differ_plainly(contact, &self.contact) {
            return false;
        }
        match (Uri::parse(contact), Uri::parse(&self.contact)) {
            (Ok(wanted), Ok(bound)) => wanted.matches(&bound),
            _ => false,
        }
    }

    /// Appends the binding as a line. Its texts contain no line ends; tabs in them are replaced by spaces.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_fields(out);
        if self.gruu != 0 {
            // An empty stamp and an empty token.
            out.extend_from_slice(b"\t0\t\t");
            write_decimal(out, self.gruu);
        }
        out.push(b'\n');
    }

    /// Appends the binding as a line for other nodes, with its stamp and the token of its flow.
    pub(super) fn write_for_others(&self, out: &mut Vec<u8>, seal: &dyn SealFlow) {
        self.write_fields(out);
        out.push(b'\t');
        write_decimal(out, self.stamp);
        out.push(b'\t');
        if self.flow_use != FlowUse::None && !self.has_ended {
            seal.seal(&self.flow, out);
        }
        if self.gruu != 0 || self.has_ended {
            out.push(b'\t');
            write_decimal(out, self.gruu);
        }
        if self.has_ended {
            out.extend_from_slice(b"\t1");
        }
        out.push(b'\n');
    }

    /// Appends the binding as a line with its stamp, but without a token for its flow.
    pub(super) fn write_stamped(&self, out: &mut Vec<u8>) {
        self.write_fields(out);
        out.push(b'\t');
        write_decimal(out, self.stamp);
        out.extend_from_slice(b"\t\t");
        write_decimal(out, self.gruu);
        out.push(b'\n');
    }

    fn write_fields(&self, out: &mut Vec<u8>) {
        let texts: [&[u8]; 5] = [&self.contact, &self.params, &self.call_id, &self.instance, &self.path];
        for text in texts {
            let at = out.len();
            out.extend_from_slice(text);
            let breaks = |byte: &u8| matches!(byte, b'\t' | b'\r' | b'\n');
            // Few texts contain one, and checking for any is faster than examining each byte.
            if text.iter().fold(false, |found, byte| found | breaks(byte)) {
                out.iter_mut().skip(at).filter(|byte| breaks(byte)).for_each(|byte| *byte = b' ');
            }
            out.push(b'\t');
        }
        let numbers = [u64::from(self.cseq), self.expires_at, u64::from(self.q), u64::from(self.reg_id)];
        for number in numbers {
            write_decimal(out, number);
            out.push(b'\t');
        }
        out.push(match self.flow_use {
            FlowUse::None => b'-',
            FlowUse::First => b'f',
            FlowUse::Last => b'l',
            FlowUse::Only => b'o',
        });
        out.push(b'\t');
        out.extend_from_slice(self.flow.protocol.name().as_bytes());
        out.push(b'\t');
        write_decimal(out, self.flow.connection);
        out.push(b'\t');
        write_peer(out, self.flow.peer);
    }

    /// Parses a line written by [`write`](Self::write). Returns `None` for any other line.
    #[must_use]
    pub fn read(line: &[u8]) -> Option<Self> {
        Self::read_of(line, 0)
    }

    /// Parses a line of another node.
    pub(super) fn read_of(line: &[u8], node: u16) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b'\t');
        let contact = fields.next()?.into();
        let params = fields.next()?.into();
        let call_id = fields.next()?.into();
        let instance = fields.next()?.into();
        let path = fields.next()?.into();
        let cseq = number(fields.next()?)?;
        let expires_at = number(fields.next()?)?;
        let q = number(fields.next()?)?;
        let reg_id = number(fields.next()?)?;
        let flow_use = match fields.next()? {
            b"-" => FlowUse::None,
            b"f" => FlowUse::First,
            b"l" => FlowUse::Last,
            b"o" => FlowUse::Only,
            _ => return None,
        };
        let protocol = Protocol::from_name(fields.next()?)?;
        let connection = number(fields.next()?)?;
        let peer: SocketAddr = core::str::from_utf8(fields.next()?).ok()?.trim_end().parse().ok()?;
        let flow = Flow { connection, ..Flow::to(protocol, peer) };
        let stamp = fields.next().and_then(number).unwrap_or(0);
        let token = fields.next().unwrap_or(&[]).into();
        let gruu = fields.next().and_then(number).unwrap_or(0);
        let has_ended = fields.next() == Some(b"1");
        let origin = (node != 0).then(|| Box::new(Origin { node, token }));
        Some(Self {
            contact,
            params,
            call_id,
            cseq,
            expires_at,
            q,
            reg_id,
            instance,
            path,
            flow,
            flow_use,
            gruu,
            stamp,
            origin,
            has_ended,
        })
    }
}

/// Returns true if the URIs differ in a significant digit, so that they can't be equivalent. If it returns
/// false, they may or may not be. The contacts of one user usually differ in a port or an address, and
/// parsing both would take ten times as long.
///
/// Up to that digit, both texts are equal and contain no escapes, parameters, headers or IPv6 brackets. The
/// digit therefore belongs to the same user, password or name, where every digit is significant, or to the
/// same port or part of an IPv4 address, where only leading zeros are not.
fn differ_plainly(one: &[u8], other: &[u8]) -> bool {
    let at = first_difference(one, other);
    let (Some(a), Some(b), Some(before)) = (one.get(at), other.get(at), one.get(..at)) else { return false };
    let within_number = before.iter().rev().find(|byte| **byte != b'0').is_some_and(u8::is_ascii_digit);
    let counts = |digit: &u8| digit.is_ascii_digit() && (*digit != b'0' || within_number);
    let special = |byte: &u8| matches!(byte, b'%' | b';' | b'?' | b'[');
    // The loop has no early exit, so that the compiler can vectorise it.
    counts(a) && counts(b) && !before.iter().fold(false, |found, byte| found | special(byte))
}

/// The position of the first difference, or the length of the shorter text.
fn first_difference(one: &[u8], other: &[u8]) -> usize {
    let ((ones, _), (others, _)) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    let same = ones.iter().zip(others).take_while(|(one, other)| one == other).count() * 8;
    let rest = one.iter().zip(other).skip(same).take_while(|(one, other)| one == other).count();
    same + rest
}

fn write_decimal(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(decimal(number, &mut [0; 20]));
}

fn write_peer(out: &mut Vec<u8>, peer: SocketAddr) {
    use std::io::Write;
    match peer {
        SocketAddr::V4(peer) => {
            write_address(out, (*peer.ip()).into());
            out.push(b':');
            write_decimal(out, u64::from(peer.port()));
        }
        // Writing to a growable buffer does not fail.
        SocketAddr::V6(peer) => {
            let _ = write!(out, "{peer}");
        }
    }
}

pub(super) fn number<T: core::str::FromStr>(text: &[u8]) -> Option<T> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// Returns true if both name the same instance. UUIDs are case-insensitive (RFC 4122 section 3).
#[must_use]
pub fn is_same_instance(one: &[u8], other: &[u8]) -> bool {
    let is_uuid = |text: &[u8]| text.get(..UUID.len()).is_some_and(|start| start.eq_ignore_ascii_case(UUID));
    one == other || (is_uuid(one) && one.eq_ignore_ascii_case(other))
}

#[cfg(test)]
mod tests;
