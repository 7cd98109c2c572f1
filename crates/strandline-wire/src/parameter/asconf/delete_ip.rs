//! Delete IP Address: asks the receiver to remove an address of the sender from the association (RFC 5061 section
//! 4.2.2).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 0xC002                 │ length = 8 + address          │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ ASCONF-request correlation ID                                 │
//! ├───────────────────────────────────────────────────────────────┤
//! ╎ address parameter: IPv4 Address or IPv6 Address               ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

/// Parameter type of Delete IP Address.
pub const KIND: u16 = 0xc002;
