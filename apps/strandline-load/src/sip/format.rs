//! Fast formatting of texts and numbers into a buffer: a load writes hundreds of thousands of messages per
//! second.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

/// A value that can be appended to a message.
pub(super) trait Put {
    fn put(&self, out: &mut Vec<u8>);
}

/// Appends one value after the other.
macro_rules! put {
    ($out:expr, $($what:expr),* $(,)?) => {
        {
            $($crate::sip::format::Put::put(&$what, $out);)*
        }
    };
}

pub(super) use put;

impl Put for &str {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl Put for &[u8] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl Put for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        decimal(*self, 1, out);
    }
}

impl Put for u32 {
    fn put(&self, out: &mut Vec<u8>) {
        u64::from(*self).put(out);
    }
}

impl Put for u8 {
    fn put(&self, out: &mut Vec<u8>) {
        u64::from(*self).put(out);
    }
}

impl Put for usize {
    fn put(&self, out: &mut Vec<u8>) {
        (*self as u64).put(out);
    }
}

/// A number padded to a fixed minimum of digits: datagrams of equal length can be sent as a GSO batch.
pub(super) struct Padded(pub(super) usize);

impl Put for Padded {
    fn put(&self, out: &mut Vec<u8>) {
        decimal(self.0 as u64, 6, out);
    }
}

impl Put for SocketAddr {
    fn put(&self, out: &mut Vec<u8>) {
        match self.ip() {
            IpAddr::V4(address) => {
                // Three digits and a dot or a colon for each octet.
                let (mut text, mut len) = ([0; 16], 0);
                for octet in address.octets() {
                    let (digits, count) = OCTETS[usize::from(octet)];
                    text[len..len + 4].copy_from_slice(&digits);
                    len += usize::from(count);
                    text[len] = b'.';
                    len += 1;
                }
                text[len - 1] = b':';
                out.extend_from_slice(&text[..len]);
                u32::from(self.port()).put(out);
            }
            // Writing to a buffer that grows does not fail. The zone of a link-local address is for this host only.
            IpAddr::V6(address) => {
                let _ = write!(out, "[{address}]:{}", self.port());
            }
        }
    }
}

/// The digits of each octet, and their number.
const OCTETS: [([u8; 4], u8); 256] = octets();

const fn octets() -> [([u8; 4], u8); 256] {
    let mut all = [([0; 4], 0); 256];
    let mut octet = 0;
    while octet < 256 {
        let (high, middle, low) = ((octet / 100) as u8, (octet / 10 % 10) as u8, (octet % 10) as u8);
        all[octet] = match octet {
            0..10 => ([b'0' + low, 0, 0, 0], 1),
            10..100 => ([b'0' + middle, b'0' + low, 0, 0], 2),
            _ => ([b'0' + high, b'0' + middle, b'0' + low, 0], 3),
        };
        octet += 1;
    }
    all
}

/// Number of digits of the largest number.
const DIGITS_MAX: usize = 20;

/// Appends a number with at least `digits_min` digits, which must be from 1 to 20.
fn decimal(number: u64, digits_min: usize, out: &mut Vec<u8>) {
    let (mut text, mut at, mut rest) = ([b'0'; DIGITS_MAX], DIGITS_MAX, number);
    while rest > 0 && at > 0 {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&text[at.min(DIGITS_MAX - digits_min)..]);
}

#[cfg(test)]
mod tests;
