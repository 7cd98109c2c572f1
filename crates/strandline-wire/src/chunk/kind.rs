//! Chunk types (RFC 9260 section 3.2, table 1, and the extensions that this crate knows).

/// DATA: payload data.
pub const DATA: u8 = 0;
/// INIT: initiation.
pub const INIT: u8 = 1;
/// INIT ACK: initiation acknowledgement.
pub const INIT_ACK: u8 = 2;
/// SACK: selective acknowledgement.
pub const SACK: u8 = 3;
/// HEARTBEAT: heartbeat request.
pub const HEARTBEAT: u8 = 4;
/// HEARTBEAT ACK: heartbeat acknowledgement.
pub const HEARTBEAT_ACK: u8 = 5;
/// ABORT: abort of the association.
pub const ABORT: u8 = 6;
/// SHUTDOWN: shutdown of the association.
pub const SHUTDOWN: u8 = 7;
/// SHUTDOWN ACK: shutdown acknowledgement.
pub const SHUTDOWN_ACK: u8 = 8;
/// ERROR: operation error.
pub const ERROR: u8 = 9;
/// COOKIE ECHO: state cookie.
pub const COOKIE_ECHO: u8 = 10;
/// COOKIE ACK: cookie acknowledgement.
pub const COOKIE_ACK: u8 = 11;
/// ECNE: explicit congestion notification echo.
pub const ECNE: u8 = 12;
/// CWR: congestion window reduced.
pub const CWR: u8 = 13;
/// SHUTDOWN COMPLETE: end of the shutdown.
pub const SHUTDOWN_COMPLETE: u8 = 14;
/// AUTH: authentication of the chunks that follow it (RFC 4895).
pub const AUTH: u8 = 15;
/// NR-SACK: selective acknowledgement that says what is never revoked (draft-tuexen-tsvwg-sctp-multipath).
pub const NR_SACK: u8 = 16;
/// I-DATA: payload data of messages that may be interleaved (RFC 8260).
pub const I_DATA: u8 = 64;
/// ASCONF-ACK: what became of requests to change addresses (RFC 5061).
pub const ASCONF_ACK: u8 = 0x80;
/// RE-CONFIG: re-configuration of streams (RFC 6525).
pub const RE_CONFIG: u8 = 130;
/// PAD: padding (RFC 4820).
pub const PAD: u8 = 0x84;
/// STREAM CREDIT: how far the peer may send on streams (docs/stream-credit.md).
pub const STREAM_CREDIT: u8 = 188;
/// STREAM BLOCKED: streams with data beyond their credit (docs/stream-credit.md).
pub const STREAM_BLOCKED: u8 = 189;
/// FORWARD TSN: a new cumulative TSN beyond data that was abandoned (RFC 3758).
pub const FORWARD_TSN: u8 = 192;
/// ASCONF: requests to change the addresses of an association (RFC 5061).
pub const ASCONF: u8 = 0xc1;
/// I-FORWARD-TSN: a new cumulative TSN beyond I-DATA chunks that were abandoned (RFC 8260).
pub const I_FORWARD_TSN: u8 = 194;

/// Returns the name of a chunk type, or `None` if this crate doesn't know the type.
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
        AUTH => "AUTH",
        NR_SACK => "NR-SACK",
        I_DATA => "I-DATA",
        ASCONF_ACK => "ASCONF-ACK",
        RE_CONFIG => "RE-CONFIG",
        PAD => "PAD",
        STREAM_CREDIT => "STREAM CREDIT",
        STREAM_BLOCKED => "STREAM BLOCKED",
        FORWARD_TSN => "FORWARD TSN",
        ASCONF => "ASCONF",
        I_FORWARD_TSN => "I-FORWARD-TSN",
        _ => return None,
    })
}
