//! The state of a path (RFC 9260 section 8.2, RFC 7829 section 3).

/// The state of a path.
///
/// ```text
///                 HEARTBEAT ACK with the nonce          error_count > Path.Max.Retrans
///     Unconfirmed ----------------------------> Active ---------------------------------> Inactive
///                                                | ^                                       | ^
///  error_count > PotentiallyFailed.Max.Retrans,  | +---------------------------------------+ |
///  and there is another path                     v | data or a HEARTBEAT acknowledged        |
///                                         PotentiallyFailed -------------------------------+
/// ```
/// An inactive path is ambiguous from the acknowledgement of data that went over it last, and over another
/// path before, to the next error.
///
/// An unconfirmed path that does not answer stays unconfirmed. It gets no more HEARTBEATs once Path.Max.Retrans is
/// exceeded, because the address may belong to another host. A packet of the peer from that address starts them
/// again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathState {
    /// The address is not known to be the peer's. Only HEARTBEATs are sent to it (RFC 9260 section 5.4).
    Unconfirmed,
    /// In use, or ready for it.
    Active,
    /// The path did not answer recently. Active paths are preferred (RFC 7829 section 3).
    PotentiallyFailed,
    /// Path.Max.Retrans was exceeded (RFC 9260 section 8.2).
    Inactive,
    /// Inactive, but the peer acknowledged data that was last sent here. It may have arrived by another path,
    /// so the path is still inactive (RFC 7829 section 3.2 rule 9). While all paths are, data uses this one
    /// (section 4.1).
    Ambiguous,
}

impl PathState {
    /// True if Path.Max.Retrans was exceeded, and nothing shows clearly that the path works again.
    pub(crate) const fn is_inactive(self) -> bool {
        matches!(self, Self::Inactive | Self::Ambiguous)
    }
}
