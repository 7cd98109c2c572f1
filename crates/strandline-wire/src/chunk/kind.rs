//! Chunk types (RFC 9260 section 3.2, table 1, and the extensions that this crate knows).

/// Payload Data.
pub const DATA: u8 = 0;
/// Initiation.
pub const INIT: u8 = 1;
/// Initiation Acknowledgement.
pub const INIT_ACK: u8 = 2;
/// Selective Acknowledgement.
pub const SACK: u8 = 3;
/// Heartbeat Request.
pub const HEARTBEAT: u8 = 4;
/// Heartbeat Acknowledgement.
pub const HEARTBEAT_ACK: u8 = 5;
/// Abort Association.
pub const ABORT: u8 = 6;
/// Shutdown Association.
pub const SHUTDOWN: u8 = 7;
/// Shutdown Acknowledgement.
pub const SHUTDOWN_ACK: u8 = 8;
/// Operation Error.
pub const ERROR: u8 = 9;
/// State Cookie.
pub const COOKIE_ECHO: u8 = 10;
/// Cookie Acknowledgement.
pub const COOKIE_ACK: u8 = 11;
/// Explicit Congestion Notification Echo.
pub const ECNE: u8 = 12;
/// Congestion Window Reduced.
pub const CWR: u8 = 13;
/// Shutdown Complete.
pub const SHUTDOWN_COMPLETE: u8 = 14;
/// Padding (RFC 4820).
pub const PAD: u8 = 0x84;

/// The RFC's name of a chunk type, if this crate knows it.
#[must_use]
pub const fn name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        DATA => "DATA",
        INIT => "INIT",
        INIT_ACK => "INIT ACK",
        SACK => "SACK",
        HEARTBEAT => "HEARTBEAT",
        HEARTBEAT_ACK => "HEARTBEAT ACK",
        ABORT => "ABORT",
        SHUTDOWN => "SHUTDOWN",
        SHUTDOWN_ACK => "SHUTDOWN ACK",
        ERROR => "ERROR",
        COOKIE_ECHO => "COOKIE ECHO",
        COOKIE_ACK => "COOKIE ACK",
        ECNE => "ECNE",
        CWR => "CWR",
        SHUTDOWN_COMPLETE => "SHUTDOWN COMPLETE",
        PAD => "PAD",
        _ => return None,
    })
}
