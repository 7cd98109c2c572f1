//! Add IP Address: asks the receiver to add an address of the sender to the association (RFC 5061 section 4.2.1).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 0xC001                 │ length = 8 + address          │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ ASCONF-request correlation ID                                 │
//! ├───────────────────────────────────────────────────────────────┤
//! ╎ address parameter: IPv4 Address or IPv6 Address               ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

/// Parameter type of Add IP Address.
pub const KIND: u16 = 0xc001;
