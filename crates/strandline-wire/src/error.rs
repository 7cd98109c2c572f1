//! What can be wrong with bytes from the network. One type for each layer; each value says what was found.

use thiserror::Error;

/// The bytes are not an SCTP packet.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Error)]
pub enum PacketError {
    /// Shorter than the common header.
    #[error("packet of {len} bytes is shorter than the common header of 12")]
    TooShort {
        /// Bytes there were.
        len: usize,
    },
}

/// A chunk, parameter or error cause whose own length field can't be true: nothing after it can be found.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Error)]
pub enum FramingError {
    /// Some bytes are left, but fewer than a header.
    #[error("{remaining} bytes are left where a header of 4 was expected")]
    HeaderTruncated {
        /// Bytes left.
        remaining: usize,
    },
    /// The length doesn't even cover the header.
    #[error("length {length} of type {kind} is less than its header of 4")]
    LengthTooSmall {
        /// Type of the chunk, parameter or cause.
        kind: u16,
        /// Its length field.
        length: u16,
    },
    /// The length reaches beyond the packet (for a chunk) or beyond the chunk (for a parameter or cause).
    #[error("length {length} of type {kind} goes beyond the {remaining} bytes that are left")]
    LengthBeyondEnd {
        /// Type of the chunk, parameter or cause.
        kind: u16,
        /// Its length field.
        length: u16,
        /// Bytes left, header included.
        remaining: usize,
    },
}

/// A chunk that is framed correctly and whose content is not what its type requires.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// A type of fixed size has another size.
    #[error("chunk type {kind} has a value of {found} bytes instead of {expected}")]
    WrongLength {
        /// Chunk type.
        kind: u8,
        /// Bytes of value (without the chunk header) that the type has.
        expected: usize,
        /// Bytes of value found.
        found: usize,
    },
    /// Too short for the fields every chunk of the type has.
    #[error("chunk type {kind} has a value of {found} bytes, less than its {minimum} of fixed fields")]
    TooShort {
        /// Chunk type.
        kind: u8,
        /// Bytes of value that its fixed fields take.
        minimum: usize,
        /// Bytes of value found.
        found: usize,
    },
    /// A SACK whose numbers of gap blocks and duplicates don't agree with its length.
    #[error("SACK names {gap_blocks} gap blocks and {duplicates} duplicates in {found} bytes of lists")]
    SackCounts {
        /// Number of Gap Ack Blocks.
        gap_blocks: u16,
        /// Number of Duplicate TSNs.
        duplicates: u16,
        /// Bytes that follow the fixed fields.
        found: usize,
    },
    /// A HEARTBEAT or HEARTBEAT ACK that doesn't begin with a Heartbeat Info parameter.
    #[error("chunk type {kind} begins with parameter {parameter} instead of Heartbeat Info")]
    NotHeartbeatInfo {
        /// Chunk type.
        kind: u8,
        /// Type of the parameter found.
        parameter: u16,
    },
    /// The one parameter of a HEARTBEAT or HEARTBEAT ACK is framed wrongly or missing.
    #[error("chunk type {kind}: {error}")]
    Framing {
        /// Chunk type.
        kind: u8,
        /// What is wrong with the parameter.
        error: FramingError,
    },
}

/// A parameter that is framed correctly and whose content is not what its type requires.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// A type of fixed size has another size.
    #[error("parameter type {kind} has a value of {found} bytes instead of {expected}")]
    WrongLength {
        /// Parameter type.
        kind: u16,
        /// Bytes of value (without type and length) that the type has.
        expected: usize,
        /// Bytes of value found.
        found: usize,
    },
    /// A list whose length is no multiple of its elements' size.
    #[error("parameter type {kind} has a value of {found} bytes, not a multiple of {element}")]
    NotAMultiple {
        /// Parameter type.
        kind: u16,
        /// Bytes of one element.
        element: usize,
        /// Bytes of value found.
        found: usize,
    },
}

/// An error cause that is framed correctly and whose content is not what its code requires.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Error)]
pub enum CauseError {
    /// A cause of fixed size has another size.
    #[error("cause {code} has {found} bytes of information instead of {expected}")]
    WrongLength {
        /// Cause code.
        code: u16,
        /// Bytes of cause-specific information that the code has.
        expected: usize,
        /// Bytes found.
        found: usize,
    },
    /// Too short for the fields every cause of this code has.
    #[error("cause {code} has {found} bytes of information, less than its {minimum} of fixed fields")]
    TooShort {
        /// Cause code.
        code: u16,
        /// Bytes that its fixed fields take.
        minimum: usize,
        /// Bytes found.
        found: usize,
    },
    /// Missing Mandatory Parameter whose number of parameters doesn't agree with its length.
    #[error("cause names {count} missing parameters in {found} bytes")]
    Count {
        /// Number of missing parameters, as the cause says.
        count: u32,
        /// Bytes of its list.
        found: usize,
    },
}
