//! Whether a path can be used (RFC 9260 section 8.2, RFC 7829 section 3).

/// Whether a path can be used.
///
/// ```text
///                 HEARTBEAT ACK with the nonce          error_count > Path.Max.Retrans
///     Unconfirmed ----------------------------> Active ---------------------------------> Inactive
///                                                | ^                                       | ^
///  error_count > PotentiallyFailed.Max.Retrans,  | +---------------------------------------+ |
///  and there is another path                     v | data or a HEARTBEAT acknowledged        |
///                                         PotentiallyFailed -------------------------------+
/// ```
/// An unconfirmed path that does not answer stays unconfirmed. It gets no more HEARTBEATs once Path.Max.Retrans is exceeded,
/// unless a packet of the peer comes from there: whoever has the address may not want them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathState {
    /// Not known to be the peer's: nothing but HEARTBEATs goes there (RFC 9260 section 5.4).
    Unconfirmed,
    /// In use, or ready for it.
    Active,
    /// It did not answer lately: active paths come first (RFC 7829 section 3).
    PotentiallyFailed,
    /// Path.Max.Retrans was exceeded (RFC 9260 section 8.2).
    Inactive,
}
