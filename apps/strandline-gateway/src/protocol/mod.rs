//! What gateways say to each other: the first message of each direction of a stream. No I/O.
//!
//! The side that opens a stream sends an [`Opening`], behind it in the same message what the application has
//! already sent, and does not wait for the answer. The other side answers with a [`Reply`]. Whatever follows
//! on the stream, in both directions, is the data of the TCP connection: messages without meaning of their
//! own.
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+---------------+-------------------------------+
//! |  version = 1  | kind or code  |   length of the header, bytes |
//! +---------------+---------------+-------------------------------+
//! | field's type  | field's length|  value ...                    |
//! +---------------+---------------+-------------------------------+
//! ```
//!
//! Fields follow one another up to the end of the header. A receiver skips fields that it doesn't know from
//! type 128 on, and refuses the message if it doesn't know one below.

mod destination;
mod fields;
mod opening;
mod reply;
mod report;

pub(crate) use self::destination::{Destination, Host};
#[cfg(test)]
use self::fields::Malformed;
pub(crate) use self::fields::{HEADER_MAX, header_len};
pub(crate) use self::opening::Opening;
pub(crate) use self::reply::{Reason, Reply};
pub(crate) use self::report::Report;

#[cfg(test)]
mod tests;
