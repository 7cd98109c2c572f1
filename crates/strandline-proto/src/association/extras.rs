//! State that few associations have, behind one pointer.

use super::asconf_state::DynamicAddresses;
use super::auth::Auth;
use super::left_over::OtherInits;
use crate::number::StreamId;
use crate::path::Proof;
use crate::stats::AbandonedStats;
use crate::time::Time;

/// State of an association that gave messages up, whose configuration asks for authentication, and the like.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    /// What was abandoned.
    pub(crate) abandoned: AbandonedStats,
    /// Authentication of chunks (RFC 4895), if the configuration asks for it.
    pub(crate) auth: Option<Auth>,
    /// Dynamic address reconfiguration (RFC 5061), once either side has asked for it.
    pub(super) dynamic: Option<Box<DynamicAddresses>>,
    /// The code point of the peer's Adaptation Layer Indication.
    pub(super) adaptation: Option<u32>,
    /// The first stream that is opened and closed at run time, if there are such streams.
    pub(super) dynamic_from: Option<StreamId>,
    /// The proof that long SACKs arrive, if there are any.
    pub(super) proof: Option<Proof>,
    /// INITs of other processes of the peer that were answered during the set-up, if there were any.
    pub(super) other_inits: Option<OtherInits>,
    /// The peer's requests to reset streams are denied, because the application records no more of them.
    pub(super) denies_resets: bool,
}

impl Extras {
    /// Returns the extras of an association with this authentication.
    pub(super) fn with(auth: Option<Auth>) -> Option<Box<Self>> {
        auth.map(|auth| Box::new(Self { auth: Some(auth), ..Self::default() }))
    }

    /// True if nothing of it has been used.
    pub(super) fn is_unused(&self) -> bool {
        let Self { abandoned, auth, dynamic, adaptation, dynamic_from, proof, other_inits, denies_resets } =
            self;
        let none = auth.is_none() && dynamic.is_none() && adaptation.is_none();
        none && dynamic_from.is_none()
            && proof.is_none()
            && other_inits.is_none()
            && !denies_resets
            && *abandoned == AbandonedStats::default()
    }

    /// Returns when an ASCONF is sent again; `Time::MAX` if none is outstanding.
    #[cold]
    pub(super) fn deadline(&self) -> Time {
        self.dynamic.as_ref().map_or(Time::MAX, |dynamic| dynamic.deadline)
    }

    /// Returns the size of what is allocated, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        let dynamic = self.dynamic.as_ref().map_or(0, |dynamic| dynamic.heap_bytes());
        size_of::<Self>() + self.auth.as_ref().map_or(0, Auth::heap_bytes) + dynamic
    }
}
