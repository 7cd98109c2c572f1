//! What copies of a request are made of.

use crate::transaction::Flow;

use super::incoming::Incoming;
use super::route::Way;

/// The most copies of a request that may be on their way at once (RFC 5393 section 5.3.3).
pub(super) const BREADTH: u32 = 60;

/// What a copy of a request differs in from others.
pub(super) struct Copy<'a> {
    pub(super) uri: Option<&'a [u8]>,
    pub(super) path: &'a [u8],
    pub(super) flow: Flow,
    pub(super) branch: &'a [u8],
    pub(super) breadth: u32,
    /// The mark of the name that led there; 0 without.
    pub(super) host: u32,
    /// It goes to a proxy, which is asked how much it can take.
    pub(super) neighbour: bool,
    /// A URI names the place: who listens there over UDP may do so over TCP too.
    pub(super) by_uri: bool,
}

/// What is copied.
pub(super) struct Copied<'a> {
    pub(super) incoming: &'a Incoming<'a>,
    pub(super) way: &'a Way<'a>,
    pub(super) mark: u64,
}
