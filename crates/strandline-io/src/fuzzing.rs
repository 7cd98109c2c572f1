//! Fuzz targets: functions of any bytes that panic if a parser of this crate breaks a promise.

pub use crate::errors::fuzzing::run as error_queue;
pub use crate::ipv4::fuzzing::run as raw_packet;
pub use crate::sys::control::fuzzing::run as control_messages;
pub use crate::sys::netlink::fuzzing::run as netlink;

#[cfg(test)]
mod tests;
