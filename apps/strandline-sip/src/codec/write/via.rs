//! Writes a new Via (RFC 3261 section 18.1.1).

use core::fmt::Write;
use core::net::IpAddr;

use bytes::{BufMut, BytesMut};

use crate::codec::header::via::MAGIC_COOKIE;
use crate::codec::transport::Transport;
use crate::codec::uri::host::Host;

use super::{WriteError, check_text};

/// A Via to write.
#[derive(Debug, Clone, Copy)]
pub struct NewVia<'a> {
    /// The transport over which the message is sent.
    pub transport: Transport<'a>,
    /// The host that receives the responses.
    pub host: Host<'a>,
    /// The port, if it is not the default port.
    pub port: Option<u16>,
    /// The branch, without the magic cookie, which is added.
    pub branch: &'a [u8],
    /// Whether to ask for the source port (RFC 3581).
    pub rport: bool,
    /// Further parameters in their written form, such as `;alias`.
    pub params: &'a [u8],
}

impl NewVia<'_> {
    pub(crate) fn check(&self) -> Result<(), WriteError> {
        check_text(self.branch).and_then(|()| check_text(self.params))
    }

    /// Writes the whole line.
    pub(crate) fn write(&self, out: &mut BytesMut) {
        out.extend_from_slice(b"Via: SIP/2.0/");
        out.extend_from_slice(self.transport.as_bytes());
        out.extend_from_slice(b" ");
        write_host(out, &self.host);
        if let Some(port) = self.port {
            out.extend_from_slice(b":");
            write_number(out, u32::from(port));
        }
        out.extend_from_slice(b";branch=");
        out.extend_from_slice(MAGIC_COOKIE);
        out.extend_from_slice(self.branch);
        if self.rport {
            out.extend_from_slice(b";rport");
        }
        out.extend_from_slice(self.params);
        out.extend_from_slice(b"\r\n");
    }
}

/// Writes an address; IPv6 without brackets (RFC 5118 section 4.5).
pub(crate) fn write_address(out: &mut impl BufMut, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            let mut text = [b'.'; 16];
            let mut len = 0;
            for octet in address.octets() {
                let (digits, count) = OCTETS[usize::from(octet)];
                if let Some(place) = text.get_mut(len..).and_then(|rest| rest.first_chunk_mut::<4>()) {
                    *place = digits;
                }
                len += usize::from(count) + 1;
            }
            // Without the final dot.
            out.put_slice(text.get(..len - 1).unwrap_or(&[]));
        }
        // Writing to a growable buffer does not fail.
        IpAddr::V6(address) => {
            let _ = std::io::Write::write_fmt(&mut out.writer(), format_args!("{address}"));
        }
    }
}

/// The numbers up to 255 in decimal, each followed by a dot, and their number of digits.
static OCTETS: [([u8; 4], u8); 256] = octets();

const fn octets() -> [([u8; 4], u8); 256] {
    let mut table = [([b'.'; 4], 0); 256];
    let mut number = 0;
    while number < 256 {
        let digits = [(number / 100) as u8, (number / 10 % 10) as u8, (number % 10) as u8];
        let mut from = if number > 99 {
            0
        } else if number > 9 {
            1
        } else {
            2
        };
        while from < 3 {
            table[number].0[table[number].1 as usize] = b'0' + digits[from];
            table[number].1 += 1;
            from += 1;
        }
        number += 1;
    }
    table
}

/// Writes a host in the form used by URIs and Via.
pub(crate) fn write_host(out: &mut BytesMut, host: &Host<'_>) {
    match host {
        Host::Name(name) => out.extend_from_slice(name),
        Host::V4(address) => write_address(out, (*address).into()),
        // Writing to a growable buffer does not fail.
        address => {
            let _ = write!(out, "{address}");
        }
    }
}

/// Writes a number in decimal.
pub(crate) fn write_number(out: &mut BytesMut, number: u32) {
    out.extend_from_slice(decimal(u64::from(number), &mut [0; 20]));
}

/// Formats a number in decimal. `digits` has room for the longest one.
pub(crate) fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    for place in digits.iter_mut().rev() {
        *place = b'0' + (number % 10) as u8;
        at -= 1;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    digits.get(at..).unwrap_or(&[])
}
