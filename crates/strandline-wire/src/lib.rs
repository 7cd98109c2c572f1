//! SCTP wire format (RFC 9260 section 3): converts packets, chunks, parameters and error causes between bytes and
//! types.
//!
//! The crate has no state and no clock and never allocates. Parsing returns views of the caller's bytes;
//! building writes into the caller's buffer. A peer may send any bytes: every length is checked once, where
//! the element is framed or parsed, and the resulting views can no longer fail.
//!
//! | layer | framed by | parsed to | built by |
//! |---|---|---|---|
//! | packet (section 3.1) | [`Packet::parse`] | [`Packet`] | [`PacketBuilder`] |
//! | chunk (3.2) | [`Packet::chunks`] | [`Chunk`], its types in [`chunk`] | [`PacketBuilder::push`] |
//! | parameter (3.2.1) | [`Parameters::iter`] | [`Parameter`] | [`TlvWriter`] |
//! | error cause (3.3.10) | [`Causes::iter`] | [`Cause`] | [`TlvWriter`] |
//!
//! [`print`](mod@print) formats a packet as one line; [`pcapng`] writes captures that Wireshark dissects.
//!
//! ```
//! use strandline_wire::{Chunk, Data, Packet, PacketBuilder, Ssn, StreamId, Tsn, VerificationTag};
//!
//! let data = Data::whole(Tsn(7), StreamId(1), Ssn(0), b"hello");
//! let mut buffer = [0; 1200];
//! let mut builder = PacketBuilder::new(&mut buffer, 5000, 5001, VerificationTag(0xabcd_ef01));
//! assert!(builder.push(&data));
//! let len = builder.finish();
//! assert_eq!(len, 12 + 16 + 5 + 3);
//!
//! let packet = Packet::parse(&buffer[..len])?;
//! assert!(packet.verify_checksum());
//! for chunk in packet.chunks() {
//!     assert_eq!(chunk?.parse()?, Chunk::Data(data));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod action;
mod builder;
mod consts;
mod encode;
mod error;
mod packet;
mod tlv;

pub mod cause;
pub mod checksum;
pub mod chunk;
pub mod number;
pub mod parameter;
pub mod pcapng;
pub mod print;

pub use action::UnrecognisedAction;
pub use builder::{PacketBuilder, write_checksum};
pub use cause::{Cause, Causes};
pub use chunk::{
    Abort, Asconf, AsconfAck, Auth, Chunk, CookieAck, CookieEcho, Cwr, Data, Ecne, Error, ForwardTsn,
    GapBlock, Heartbeat, HeartbeatAck, IData, IForwardTsn, Init, InitAck, NrSack, Pad, RawChunk, ReConfig,
    Sack, Shutdown, ShutdownAck, ShutdownComplete, StreamBlocked, StreamCredit,
};
pub use consts::{
    CHUNK_HEADER_LEN, COMMON_HEADER_LEN, DATA_CHUNK_HEADER_LEN, I_DATA_CHUNK_HEADER_LEN, IP_PROTOCOL,
    PACKET_LEN_MAX, TLV_HEADER_LEN, UDP_ENCAPSULATION_PORT, padded,
};
pub use encode::{Encode, EncodeTlv};
pub use error::{CauseError, ChunkError, FramingError, PacketError, ParameterError};
pub use number::{AsconfNumber, Fsn, Mid, Ppid, RequestNumber, Ssn, StreamId, Tsn, VerificationTag};
pub use packet::{Chunks, Packet};
pub use parameter::{Parameter, Parameters, RawParameter};
pub use tlv::TlvWriter;
