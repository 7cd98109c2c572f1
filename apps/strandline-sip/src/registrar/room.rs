//! Room for new contacts of a user who has as many as there may be.

use crate::bindings::Binding;

use super::Request;
use super::contact::{Wanted, WantedAll};

/// The places of the bindings that leave for new ones, `excess` of them; `None` if not enough may leave. First those leave whose
/// connections have ended, of the same instance before others, then other contacts of the same instance, and then, with
/// `replace_oldest`, all others. In each group those that end first are the first to leave. Bindings that the request names stay.
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

/// Came a binding over a connection that has ended?
fn is_dead(binding: &Binding, request: &Request<'_>) -> bool {
    binding.flow.connection != 0 && binding.path.is_empty() && !(request.stands)(binding)
}
