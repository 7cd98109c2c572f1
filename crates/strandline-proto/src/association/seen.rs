//! What the chunks of a packet did, gathered for its end.

use crate::number::Tsn;
use crate::path_index::PathIndex;

/// What the chunks of a packet did.
#[derive(Default)]
pub(super) struct Seen {
    /// Number of chunks so far.
    pub(super) chunks: u32,
    pub(super) data: bool,
    /// The TSN of the first DATA chunk.
    pub(super) first: Option<Tsn>,
    pub(super) ecn_ce: bool,
    pub(super) immediate: bool,
    /// True if a DATA chunk was a duplicate.
    pub(super) duplicate: bool,
    pub(super) heartbeats: u8,
    pub(super) re_configs: u8,
    pub(super) forward_tsns: u8,
    pub(super) sack: bool,
    /// The path of the acknowledgement before this packet.
    pub(super) sack_path: Option<PathIndex>,
    /// Causes for one ERROR in answer.
    pub(super) report: Vec<u8>,
    /// In SHUTDOWN-SENT: what of the peer's data had arrived before this packet.
    pub(super) progress: Option<(Tsn, u32)>,
}
