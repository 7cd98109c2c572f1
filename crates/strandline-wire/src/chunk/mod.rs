//! Chunks (RFC 9260 sections 3.2 and 3.3): one file for each type, with its diagram.

mod abort;
mod asconf;
mod asconf_ack;
mod auth;
mod cookie_ack;
mod cookie_echo;
mod cwr;
mod data;
mod ecne;
mod error;
pub mod forward_tsn;
mod heartbeat;
mod heartbeat_ack;
mod i_data;
pub mod i_forward_tsn;
mod init;
mod init_ack;
pub mod kind;
pub mod nr_sack;
mod pad;
mod raw;
mod re_config;
pub mod sack;
mod shutdown;
mod shutdown_ack;
mod shutdown_complete;
pub mod stream_blocked;
pub mod stream_credit;

pub use abort::Abort;
pub use asconf::Asconf;
pub use asconf_ack::AsconfAck;
pub use auth::Auth;
pub use cookie_ack::CookieAck;
pub use cookie_echo::CookieEcho;
pub use cwr::Cwr;
pub use data::Data;
pub use ecne::Ecne;
pub use error::Error;
pub use forward_tsn::ForwardTsn;
pub use heartbeat::Heartbeat;
pub use heartbeat_ack::HeartbeatAck;
pub use i_data::IData;
pub use i_forward_tsn::IForwardTsn;
pub use init::Init;
pub use init_ack::InitAck;
pub use nr_sack::NrSack;
pub use pad::Pad;
pub use raw::RawChunk;
pub use re_config::ReConfig;
pub use sack::{GapBlock, Sack};
pub use shutdown::Shutdown;
pub use shutdown_ack::ShutdownAck;
pub use shutdown_complete::ShutdownComplete;
pub use stream_blocked::StreamBlocked;
pub use stream_credit::StreamCredit;

use crate::encode::Encode;
use crate::error::ChunkError;

/// A chunk: its fields if the type is known, otherwise its raw form.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// DATA: payload data.
    Data(Data<'a>),
    /// INIT: initiation.
    Init(Init<'a>),
    /// INIT ACK: initiation acknowledgement.
    InitAck(Init<'a>),
    /// SACK: selective acknowledgement.
    Sack(Sack<'a>),
    /// HEARTBEAT: heartbeat request.
    Heartbeat(Heartbeat<'a>),
    /// HEARTBEAT ACK: heartbeat acknowledgement.
    HeartbeatAck(Heartbeat<'a>),
    /// ABORT: abort of the association.
    Abort(Abort<'a>),
    /// SHUTDOWN: shutdown of the association.
    Shutdown(Shutdown),
    /// SHUTDOWN ACK: shutdown acknowledgement.
    ShutdownAck,
    /// ERROR: operation error.
    Error(Error<'a>),
    /// COOKIE ECHO: state cookie.
    CookieEcho(CookieEcho<'a>),
    /// COOKIE ACK: cookie acknowledgement.
    CookieAck,
    /// ECNE: explicit congestion notification echo.
    Ecne(Ecne),
    /// CWR: congestion window reduced.
    Cwr(Cwr),
    /// SHUTDOWN COMPLETE: end of the shutdown.
    ShutdownComplete(ShutdownComplete),
    /// AUTH: authentication of the chunks that follow it.
    Auth(Auth<'a>),
    /// ASCONF: requests to change addresses.
    Asconf(Asconf<'a>),
    /// ASCONF-ACK: what became of requests to change addresses.
    AsconfAck(AsconfAck<'a>),
    /// RE-CONFIG: re-configuration of streams.
    ReConfig(ReConfig<'a>),
    /// PAD: padding.
    Pad(Pad),
    /// FORWARD TSN: a new cumulative TSN beyond data that was abandoned.
    ForwardTsn(ForwardTsn<'a>),
    /// NR-SACK: selective acknowledgement that says what is never revoked.
    NrSack(NrSack<'a>),
    /// I-DATA: payload data of messages that may be interleaved.
    IData(IData<'a>),
    /// I-FORWARD-TSN: a new cumulative TSN beyond I-DATA chunks that were abandoned.
    IForwardTsn(IForwardTsn<'a>),
    /// STREAM CREDIT: how far the peer may send on streams.
    StreamCredit(StreamCredit<'a>),
    /// STREAM BLOCKED: streams with data beyond their credit.
    StreamBlocked(StreamBlocked<'a>),
    /// A chunk of a type that this crate doesn't know; [`RawChunk::unrecognised_action`] returns what the
    /// type asks of its receiver.
    Unknown(RawChunk<'a>),
}

impl<'a> RawChunk<'a> {
    /// Parses the chunk's fields. Checks the lengths that the type prescribes; lists of parameters and causes
    /// are checked while they are iterated over.
    ///
    /// # Errors
    /// If the value is too short, its length isn't the one that the type prescribes, or its counts disagree
    /// with its length.
    #[inline]
    pub fn parse(&self) -> Result<Chunk<'a>, ChunkError> {
        match self.kind {
            kind::DATA => Data::parse(self).map(Chunk::Data),
            kind::SACK => Sack::parse(self).map(Chunk::Sack),
            _ => self.parse_control(),
        }
    }

    /// Parses a DATA chunk; returns `None` for any other type. Gives the same result as
    /// [`parse`](Self::parse), for loops over packets that hold mostly DATA.
    ///
    /// # Errors
    /// If the value is too short.
    #[inline]
    pub fn parse_data(&self) -> Option<Result<Data<'a>, ChunkError>> {
        (self.kind == kind::DATA).then(|| Data::parse(self))
    }

    /// Parses chunks other than DATA and SACK, which are most of the traffic.
    fn parse_control(&self) -> Result<Chunk<'a>, ChunkError> {
        Ok(match self.kind {
            kind::INIT => Chunk::Init(Init::parse(self)?),
            kind::INIT_ACK => Chunk::InitAck(Init::parse(self)?),
            kind::HEARTBEAT => Chunk::Heartbeat(Heartbeat::parse(self)?),
            kind::HEARTBEAT_ACK => Chunk::HeartbeatAck(Heartbeat::parse(self)?),
            kind::ABORT => Chunk::Abort(Abort::parse(self)),
            kind::SHUTDOWN => Chunk::Shutdown(Shutdown::parse(self)?),
            kind::SHUTDOWN_ACK => {
                ShutdownAck::parse(self)?;
                Chunk::ShutdownAck
            }
            kind::ERROR => Chunk::Error(Error::parse(self)),
            kind::COOKIE_ECHO => Chunk::CookieEcho(CookieEcho::parse(self)),
            kind::COOKIE_ACK => {
                CookieAck::parse(self)?;
                Chunk::CookieAck
            }
            kind::ECNE => Chunk::Ecne(Ecne::parse(self)?),
            kind::CWR => Chunk::Cwr(Cwr::parse(self)?),
            kind::SHUTDOWN_COMPLETE => Chunk::ShutdownComplete(ShutdownComplete::parse(self)?),
            kind::AUTH => Chunk::Auth(Auth::parse(self)?),
            kind::NR_SACK => Chunk::NrSack(NrSack::parse(self)?),
            kind::ASCONF => Chunk::Asconf(Asconf::parse(self)?),
            kind::ASCONF_ACK => Chunk::AsconfAck(AsconfAck::parse(self)?),
            kind::RE_CONFIG => Chunk::ReConfig(ReConfig::parse(self)),
            kind::PAD => Chunk::Pad(Pad::parse(self)),
            kind::FORWARD_TSN => Chunk::ForwardTsn(ForwardTsn::parse(self)?),
            kind::I_DATA => Chunk::IData(IData::parse(self)?),
            kind::I_FORWARD_TSN => Chunk::IForwardTsn(IForwardTsn::parse(self)?),
            kind::STREAM_CREDIT => Chunk::StreamCredit(StreamCredit::parse(self)?),
            kind::STREAM_BLOCKED => Chunk::StreamBlocked(StreamBlocked::parse(self)?),
            _ => Chunk::Unknown(*self),
        })
    }
}

impl Chunk<'_> {
    /// Calls `f` with the chunk as the type that encodes it.
    fn with<R>(&self, f: impl FnOnce(&dyn Encode) -> R) -> R {
        match self {
            Self::Data(chunk) => f(chunk),
            Self::Init(chunk) => f(chunk),
            Self::InitAck(chunk) => f(&InitAck(*chunk)),
            Self::Sack(chunk) => f(chunk),
            Self::Heartbeat(chunk) => f(chunk),
            Self::HeartbeatAck(chunk) => f(&HeartbeatAck(*chunk)),
            Self::Abort(chunk) => f(chunk),
            Self::Shutdown(chunk) => f(chunk),
            Self::ShutdownAck => f(&ShutdownAck),
            Self::Error(chunk) => f(chunk),
            Self::CookieEcho(chunk) => f(chunk),
            Self::CookieAck => f(&CookieAck),
            Self::Ecne(chunk) => f(chunk),
            Self::Cwr(chunk) => f(chunk),
            Self::ShutdownComplete(chunk) => f(chunk),
            Self::Auth(chunk) => f(chunk),
            Self::Asconf(chunk) => f(chunk),
            Self::AsconfAck(chunk) => f(chunk),
            Self::ReConfig(chunk) => f(chunk),
            Self::Pad(chunk) => f(chunk),
            Self::ForwardTsn(chunk) => f(chunk),
            Self::NrSack(chunk) => f(chunk),
            Self::IData(chunk) => f(chunk),
            Self::IForwardTsn(chunk) => f(chunk),
            Self::StreamCredit(chunk) => f(chunk),
            Self::StreamBlocked(chunk) => f(chunk),
            Self::Unknown(chunk) => f(chunk),
        }
    }
}

impl Encode for Chunk<'_> {
    fn kind(&self) -> u8 {
        self.with(|chunk| chunk.kind())
    }
    fn flags(&self) -> u8 {
        self.with(|chunk| chunk.flags())
    }
    fn value_len(&self) -> usize {
        self.with(|chunk| chunk.value_len())
    }
    fn encode_value(&self, out: &mut [u8]) {
        self.with(|chunk| chunk.encode_value(out));
    }
}

#[cfg(test)]
mod tests;
