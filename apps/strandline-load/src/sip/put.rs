//! Writing texts and numbers into a buffer, as fast as that goes: a load writes hundreds of thousands of messages a second.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

/// What can be appended to a message.
pub(super) trait Put {
    fn put(&self, out: &mut Vec<u8>);
}

/// Appends one thing after the other.
macro_rules! put {
    ($out:expr, $($what:expr),* $(,)?) => {
        {
            $($crate::sip::put::Put::put(&$what, $out);)*
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

/// A number of always so many digits at least: what is equally long can be sent as a train.
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
                for (number, octet) in address.octets().into_iter().enumerate() {
                    if number > 0 {
                        out.push(b'.');
                    }
                    octet.put(out);
                }
                out.push(b':');
                u32::from(self.port()).put(out);
            }
            // Writing to a buffer that grows does not fail.
            IpAddr::V6(_) => {
                let _ = write!(out, "{self}");
            }
        }
    }
}

/// At least `digits_min` digits, which is at least one.
fn decimal(number: u64, digits_min: usize, out: &mut Vec<u8>) {
    let (at, mut rest) = (out.len(), number);
    while rest > 0 || out.len() < at + digits_min {
        out.push(b'0' + (rest % 10) as u8);
        rest /= 10;
    }
    if let Some(digits) = out.get_mut(at..) {
        digits.reverse();
    }
}

#[cfg(test)]
mod tests;
