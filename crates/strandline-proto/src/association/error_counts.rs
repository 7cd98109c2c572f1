//! Error counts of an association as a whole; those of its paths are in `path`. A restart of the peer resets them.

/// Why an association ends after too many consecutive errors (section 8.1).
pub(super) const UNANSWERED: &str = "Association.Max.Retrans exceeded: no answer";

/// Counts that end the association when they exceed their limits.
#[derive(Debug, Default)]
pub(super) struct ErrorCounts {
    /// Number of consecutive errors over all paths (section 8.1).
    pub(super) total: u16,
    /// Number of T3-rtx time-outs since DATA was last acknowledged. An answered HEARTBEAT does not reset this count,
    /// because it says nothing about longer packets.
    pub(super) data_timeouts: u16,
    /// Number of retransmissions of SHUTDOWN or SHUTDOWN ACK.
    pub(super) shutdown: u16,
}
