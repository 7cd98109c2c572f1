//! Locating SIP servers (RFC 3263): what to ask DNS for, and in which order to try what it answers. No I/O, no clock, no
//! chance of its own.
//!
//! | what | where |
//! |---|---|
//! | where a URI leads to, as far as it says so | [`Question`] |
//! | NAPTR, SRV, A and AAAA, one after the other | [`locate`], over [`Records`] |
//! | servers by priority and weight (RFC 2782) | [`in_order`] |

mod order;
mod question;
mod records;
mod walk;

pub use order::in_order;
pub use question::Question;
pub use records::{Asked, Naptr, NoAnswer, Records, Srv};
pub use walk::{Answer, Found, Ours, Server, locate};
