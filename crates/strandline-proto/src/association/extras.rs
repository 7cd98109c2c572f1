//! State that few associations have, behind one pointer.

use super::auth::Auth;
use crate::stats::AbandonedStats;

/// State of an association that gave messages up, or whose configuration asks for authentication.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    /// What was given up.
    pub(crate) abandoned: AbandonedStats,
    /// Authentication of chunks (RFC 4895), if the configuration asks for it.
    pub(crate) auth: Option<Auth>,
}

impl Extras {
    /// Returns the extras of an association with this authentication.
    pub(super) fn with(auth: Option<Auth>) -> Option<Box<Self>> {
        auth.map(|auth| Box::new(Self { auth: Some(auth), ..Self::default() }))
    }

    /// Returns the size of what is allocated, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.auth.as_ref().map_or(0, Auth::heap_bytes)
    }
}
