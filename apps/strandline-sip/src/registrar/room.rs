//! Makes room for new contacts of a user who has reached the limit.

use crate::bindings::Binding;

use super::Request;
use super::contact::{Wanted, WantedAll};

/// The positions of the `excess` bindings to remove for new ones; `None` if too few may be removed. The order
/// is: bindings whose connections are closed (those of the same instance first), other contacts of the same
/// instance, and then, with `replace_oldest`, all others. Within each group, those that expire first are
/// removed first. Bindings that the request names are kept.
pub(super) fn leaving(
    bindings: &[&Binding],
    wanted: &WantedAll<'_>,
    request: &Request<'_>,
    replace_oldest: bool,
    excess: usize,
) -> Option<Vec<usize>> {
    let rank = |binding: &Binding| {
        let is_new = |wanted: &&Wanted<'_>| wanted.expires > 0;
        let is_own = wanted.iter().filter(is_new).any(|wanted| wanted.is_of_instance(binding));
        match (is_dead(binding, request), is_own) {
            (true, true) => Some(0),
            (true, false) => Some(1),
            (false, true) => Some(2),
            (false, false) => replace_oldest.then_some(3),
        }
    };
    let others = bindings
        .iter()
        .enumerate()
        .filter(|(_, binding)| !wanted.iter().any(|wanted| wanted.is_for(binding)));
    let mut all: Vec<(u8, u64, usize)> =
        others.filter_map(|(place, binding)| Some((rank(binding)?, binding.expires_at, place))).collect();
    all.sort_unstable();
    (all.len() >= excess).then(|| all.into_iter().take(excess).map(|(_, _, place)| place).collect())
}

/// Returns true if the connection of a binding is closed.
fn is_dead(binding: &Binding, request: &Request<'_>) -> bool {
    binding.flow.connection != 0 && binding.path.is_empty() && !(request.is_connected)(binding)
}
