//! Set Primary IP Address: asks the receiver to send to an address of the sender (RFC 5061 section 4.2.4).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 0xC004                 │ length = 8 + address          │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ ASCONF-request correlation ID                                 │
//! ├───────────────────────────────────────────────────────────────┤
//! ╎ address parameter: IPv4 Address or IPv6 Address               ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

/// Parameter type of Set Primary IP Address.
pub const KIND: u16 = 0xc004;
