//! Sizes of packets without data, whose loss does not lower the path MTU.

use super::destination::Path;
use super::state::PathState;
use crate::config::AssociationConfig;

/// Returns the length of the longest SCTP packet that is known to arrive: more than the smallest one once a search has
/// found a larger PMTU than it began with.
pub(crate) fn proven_len(path: &Path, config: &AssociationConfig) -> usize {
    let found = path.pmtu.mtu() > config.path_mtu_initial;
    if found { path.payload_max() } else { path.pmtu.floor_len() }
}

/// Returns the maximum size to which IP may fragment a long packet without data: no more than arrives now. It is the
/// smallest size if the address is not confirmed, or once something was not answered.
pub(crate) fn cut_max(path: &Path) -> u16 {
    if path.state == PathState::Unconfirmed || path.error_count > 0 || path.timed_out {
        path.pmtu.smallest()
    } else {
        path.pmtu.mtu()
    }
}
