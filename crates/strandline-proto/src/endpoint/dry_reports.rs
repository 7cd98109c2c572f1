//! Reports of SENDER DRY (RFC 6458 section 6.1.9).

use super::Endpoint;
use crate::association::dry::set_dry_reports;
use crate::error::UnknownAssociation;
use crate::event::AssociationId;

/// Whether an association reports [`SenderDry`](crate::event::Event::SenderDry) each time the peer has acknowledged all
/// data and no message waits to be sent. At first it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DryReports {
    /// It reports that, also at once if it is so when this is set.
    On,
    /// It does not.
    Off,
}

impl DryReports {
    /// Sets it for an association. It is kept if the peer restarts.
    ///
    /// # Errors
    /// Fails if the association has ended.
    pub fn set(self, endpoint: &mut Endpoint, id: AssociationId) -> Result<(), UnknownAssociation> {
        let (association, cx) = endpoint.live(id)?;
        set_dry_reports(association, cx, self == Self::On);
        Ok(())
    }
}
