//! Locates SIP servers (RFC 3263): which DNS queries to send, and in which order to try the results. No I/O,
//! no clock and no randomness of its own.
//!
//! | what | where |
//! |---|---|
//! | the target of a URI | [`Question`] |
//! | NAPTR, SRV, A and AAAA queries | [`locate_servers`], over [`Records`] |
//! | servers by priority and weight (RFC 2782) | [`in_order`] |

mod order;
mod question;
mod records;
mod walk;

pub use order::in_order;
pub use question::Question;
pub use records::{Naptr, NoAnswer, QueryResult, Records, Srv};
pub use walk::{Answer, Found, Ours, Server, locate_servers};
