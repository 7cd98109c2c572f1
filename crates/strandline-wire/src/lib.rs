//! SCTP on the wire (RFC 9260 section 3).
pub mod number;
