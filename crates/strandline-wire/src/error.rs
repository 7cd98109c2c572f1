//! Errors in bytes from the network: one type for each layer. Each value holds what was found.

use thiserror::Error;

/// Bytes that are not an SCTP packet.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Error)]
pub enum PacketError {
    /// Shorter than the common header.
    #[error("packet of {len} bytes is shorter than the common header of 12")]
    TooShort {
        /// Number of bytes found.
        len: usize,
    },
}

/// A chunk, parameter or error cause with an invalid length field. Nothing after it can be located.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Error)]
pub enum FramingError {
    /// Some bytes are left, but fewer than a header has.
    #[error("{remaining} bytes are left where a header of 4 was expected")]
    HeaderTruncated {
        /// Number of bytes left.
        remaining: usize,
    },
    /// The length field is smaller than the header.
    #[error("length {length} of type {kind} is less than its header of 4")]
    LengthTooSmall {
        /// Type of the chunk, parameter or cause.
        kind: u16,
        /// The length field.
        length: u16,
    },
    /// The length field reaches beyond the end of the packet (for a chunk) or of the chunk (for a parameter
    /// or cause).
    #[error("length {length} of type {kind} goes beyond the {remaining} bytes that are left")]
    LengthBeyondEnd {
        /// Type of the chunk, parameter or cause.
        kind: u16,
        /// The length field.
        length: u16,
        /// Number of bytes left, header included.
        remaining: usize,
    },
}

/// A chunk that is framed correctly but whose content is invalid for its type.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// The length of the value isn't the fixed length of the type.
    #[error("chunk type {kind} has a value of {found} bytes instead of {expected}")]
    WrongLength {
        /// Chunk type.
        kind: u8,
        /// Length of the value in bytes that the type prescribes, chunk header excluded.
        expected: usize,
        /// Length of the value found, in bytes.
        found: usize,
    },
    /// The value is shorter than the fields that every chunk of the type has.
    #[error("chunk type {kind} has a value of {found} bytes, less than its {minimum} of fixed fields")]
    TooShort {
        /// Chunk type.
        kind: u8,
        /// Length of the fixed fields in bytes.
        minimum: usize,
        /// Length of the value found, in bytes.
        found: usize,
    },
    /// The numbers of gap ack blocks and duplicate TSNs of a SACK disagree with its length.
    #[error("SACK names {gap_blocks} gap blocks and {duplicates} duplicates in {found} bytes of lists")]
    SackCounts {
        /// Number of Gap Ack Blocks.
        gap_blocks: u16,
        /// Number of Duplicate TSNs.
        duplicates: u16,
        /// Number of bytes after the fixed fields.
        found: usize,
    },
    /// The numbers of blocks and duplicate TSNs of an NR-SACK disagree with its length.
    #[error(
        "NR-SACK names {renegable} renegable and {non_renegable} other blocks and {duplicates} duplicates in \
         {found} bytes of lists"
    )]
    NrSackCounts {
        /// Number of R Gap Ack Blocks.
        renegable: u16,
        /// Number of NR Gap Ack Blocks.
        non_renegable: u16,
        /// Number of Duplicate TSNs.
        duplicates: u16,
        /// Number of bytes after the fixed fields.
        found: usize,
    },
    /// The length of a list is not a multiple of its elements' size.
    #[error("chunk type {kind} has a list of {found} bytes, not a multiple of {element}")]
    NotAMultiple {
        /// Chunk type.
        kind: u8,
        /// Length of one element in bytes.
        element: usize,
        /// Length of the list found, in bytes.
        found: usize,
    },
    /// A HEARTBEAT or HEARTBEAT ACK doesn't begin with a Heartbeat Info parameter.
    #[error("chunk type {kind} begins with parameter {parameter} instead of Heartbeat Info")]
    NotHeartbeatInfo {
        /// Chunk type.
        kind: u8,
        /// Type of the parameter found instead.
        parameter: u16,
    },
    /// The address parameter of an ASCONF is another one, or has a wrong length.
    #[error("chunk type {kind}: {error}")]
    Address {
        /// Chunk type.
        kind: u8,
        /// The error in the parameter.
        error: ParameterError,
    },
    /// The first parameter, such as the Heartbeat Info of a HEARTBEAT, is missing or framed wrongly.
    #[error("chunk type {kind}: {error}")]
    Framing {
        /// Chunk type.
        kind: u8,
        /// The error in the parameter.
        error: FramingError,
    },
}

/// A parameter that is framed correctly but whose content is invalid for its type.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// The parameter stands in the place of an address and isn't one.
    #[error("parameter type {kind} is not an address")]
    NotAnAddress {
        /// Parameter type.
        kind: u16,
    },
    /// A request for one address has more parameters than that.
    #[error("parameter type {kind} has more than one address")]
    MoreThanOneAddress {
        /// Parameter type.
        kind: u16,
    },
    /// A parameter within it is framed wrongly.
    #[error("parameter type {kind}: {error}")]
    Framing {
        /// Parameter type.
        kind: u16,
        /// The error in the inner parameter.
        error: FramingError,
    },
    /// A list has more elements than the type allows.
    #[error("parameter type {kind} has a value of {found} bytes, more than {maximum}")]
    TooLong {
        /// Parameter type.
        kind: u16,
        /// Maximum length of the value in bytes.
        maximum: usize,
        /// Length of the value found, in bytes.
        found: usize,
    },
    /// The length of the value isn't the fixed length of the type.
    #[error("parameter type {kind} has a value of {found} bytes instead of {expected}")]
    WrongLength {
        /// Parameter type.
        kind: u16,
        /// Length of the value in bytes that the type prescribes, type and length fields excluded.
        expected: usize,
        /// Length of the value found, in bytes.
        found: usize,
    },
    /// The value is shorter than the fields that every parameter of the type has.
    #[error("parameter type {kind} has a value of {found} bytes, less than its {minimum} of fixed fields")]
    TooShort {
        /// Parameter type.
        kind: u16,
        /// Length of the fixed fields in bytes.
        minimum: usize,
        /// Length of the value found, in bytes.
        found: usize,
    },
    /// The length of a list is not a multiple of its elements' size.
    #[error("parameter type {kind} has a value of {found} bytes, not a multiple of {element}")]
    NotAMultiple {
        /// Parameter type.
        kind: u16,
        /// Length of one element in bytes.
        element: usize,
        /// Length of the value found, in bytes.
        found: usize,
    },
}

/// An error cause that is framed correctly but whose content is invalid for its code.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Error)]
pub enum CauseError {
    /// The length of the information isn't the fixed length of the code.
    #[error("cause {code} has {found} bytes of information instead of {expected}")]
    WrongLength {
        /// Cause code.
        code: u16,
        /// Length of the cause-specific information in bytes that the code prescribes.
        expected: usize,
        /// Length found, in bytes.
        found: usize,
    },
    /// The information is shorter than the fields that every cause of this code has.
    #[error("cause {code} has {found} bytes of information, less than its {minimum} of fixed fields")]
    TooShort {
        /// Cause code.
        code: u16,
        /// Length of the fixed fields in bytes.
        minimum: usize,
        /// Length found, in bytes.
        found: usize,
    },
    /// The number of parameters of a Missing Mandatory Parameter disagrees with its length.
    #[error("cause names {count} missing parameters in {found} bytes")]
    Count {
        /// Number of missing parameters that the cause states.
        count: u32,
        /// Length of its list in bytes.
        found: usize,
    },
}
