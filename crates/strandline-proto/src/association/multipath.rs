//! Several paths at once (draft-tuexen-tsvwg-sctp-multipath): which of them new data uses, and how their
//! windows are coupled. Losses are detected on each path by itself in any case (section 3.1), and windows
//! grow by what each path's data is acknowledged, whether or not the Cumulative TSN Ack Point advances
//! (section 3.2).

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::{Association, State};
use crate::config::Multipath;
use crate::congestion::Controller;
use crate::outbound::is_blocked;
use crate::path::{Path, PathSet, PathState};
use crate::path_index::{PathIndex, PathMask, PerPath};

/// True if new data uses several paths at once.
#[inline]
pub(super) fn uses_several(association: &Association) -> bool {
    let wanted = association.config.extensions.multipath.is_on() && association.paths.has_several();
    wanted && !association.flags.recovery_due // Until then losses are found by miss indications.
}

/// True if new data may use the path now.
pub(super) fn takes_new_data(association: &Association, index: PathIndex) -> bool {
    match uses_several(association) {
        true => association.paths.get(index).state == PathState::Active,
        false => association.paths.data_path() == Some(index),
    }
}

/// Ends an opportunity to send: nothing more can be sent now, on this path and all others that new data may use.
#[inline]
pub(super) fn end_burst(association: &mut Association, index: PathIndex) {
    let mut all = PathMask::of(index);
    if uses_several(association) {
        active(&association.paths).for_each(|(index, _)| all.insert(index));
    }
    let waits = association.state.sends_data() && association.has_data_work();
    for index in all {
        let path = association.paths.get_mut(index);
        path.end_burst();
        path.update_pace(waits);
    }
}

fn active(paths: &PathSet) -> impl Iterator<Item = (PathIndex, &Path)> {
    paths.iter().filter(|(_, path)| path.state == PathState::Active)
}

/// Returns the path of the next new data: of the paths with room the one with the shortest round-trip time,
/// unless a faster one will have delivered everything that is queued before a packet arrives on it.
#[cold]
pub(super) fn choose_path(association: &Association) -> PathIndex {
    let Association { paths, .. } = association;
    let alone = paths.data_path().unwrap_or(association.control_path);
    if association.state.in_setup() {
        return alone;
    }
    // A test of one path is sent there.
    if let Some((index, _)) =
        active(paths).find(|(_, path)| path.probes_with_new() || path.frto_packets.is_some())
    {
        return index;
    }
    let Some((fastest, path)) = active(paths).min_by_key(|(_, path)| round_trip(path)) else { return alone };
    let open = active(paths)
        .filter(|(index, path)| path.may_send() && (*index == fastest || fits_buffers(association, path)))
        .min_by_key(|(_, path)| round_trip(path));
    match open {
        Some((index, open)) if index == fastest || !finishes_before(association, path, open) => index,
        _ => fastest,
    }
}

/// Returns the longest measured round-trip time of an active path; `None` if there is only one path.
pub(super) fn longest_round_trip(paths: &PathSet) -> Option<Duration> {
    let measured = || active(paths).filter_map(|(_, path)| path.rto.srtt()).max();
    if paths.has_several() { measured() } else { None }
}

/// Returns the round-trip time of a path, for a path without a measurement the RTO.
fn round_trip(path: &Path) -> Duration {
    path.rto.srtt().unwrap_or_else(|| path.rto.rto())
}

/// True if `fast`, whose window is full, will have sent all that is queued before a packet that is sent on
/// `slow` now would arrive (as in the scheduler ECF, Lim et al., CoNEXT 2017). While the application waits
/// for room in the send buffer, more is to come, and it never will.
fn finishes_before(association: &Association, fast: &Path, slow: &Path) -> bool {
    let Association { outbound, state, .. } = association;
    if is_blocked(outbound)
        || fast.flight == 0
        || !matches!(state, State::Established | State::ShutdownPending)
    {
        return false;
    }
    let windows = outbound.pending_bytes() as u64 / u64::from(fast.congestion.window().max(1));
    let all = round_trip(fast).as_nanos() * (1 + u128::from(windows));
    all <= round_trip(slow).as_nanos()
}

/// True if the buffers hold all that faster paths will send while a packet on this path is on its way. If
/// they don't, the faster ones would stand still for it (as in the scheduler BLEST, Ferlin et al., IFIP
/// Networking 2016).
fn fits_buffers(association: &Association, slow: &Path) -> bool {
    let Association { outbound, config, paths, .. } = association;
    let of_peer = outbound.peer_rwnd().saturating_add(outbound.unacknowledged_bytes());
    let buffer = u64::from(of_peer.min(config.send_buffer_limit()));
    let time = round_trip(slow);
    let faster = active(paths).map(|(_, path)| path).filter(|path| round_trip(path) < time);
    let sent = |path: &Path| u128::from(path.window()) * time.as_nanos() / round_trip(path).as_nanos().max(1);
    let meanwhile: u128 = faster.map(sent).sum();
    meanwhile + u128::from(slow.flight + slow.data_chunk_len_max()) <= u128::from(buffer)
}

/// Records that data arrived from another path than the latest SACK's. SACKs return to the source of the data
/// (RFC 9260 section 6.4); one that covers data of several paths takes the fastest of them, so that none of
/// the windows waits for a slower one.
#[cold]
#[inline(never)]
pub(super) fn redirect_sacks(association: &mut Association, from: PathIndex) {
    let Association { paths, sack_path, inbound, .. } = association;
    let pending =
        paths.find(*sack_path).filter(|path| inbound.sack_pending() && path.state == PathState::Active);
    if pending.is_none_or(|pending| round_trip(paths.get(from)) <= round_trip(pending)) {
        *sack_path = from;
    }
}

/// Returns the share of its growth that each path's window may take, or `None` if they are not coupled.
///
/// The windows of all paths together grow as fast as one flow's on the path that has the best throughput for its losses
/// (RFC 6356 section 3). There, a window `w` of `n` paths with round-trip times `r` grows for each acknowledged byte by
/// the smaller of `a * PMDCS / sum(w)` and `PMDCS / w`, with `a = sum(w) * max(w / r^2) / sum(w / r)^2`. That is the
/// growth of a single flow, multiplied by the smaller of `w * max(w / r^2) / sum(w / r)^2` and 1.
#[inline]
pub(super) fn shares(association: &Association) -> Option<PerPath<f32>> {
    let coupled =
        association.config.extensions.multipath == Multipath::Coupled && association.paths.has_several();
    coupled.then(|| shares_of(&association.paths))
}

#[cold]
fn shares_of(paths: &PathSet) -> PerPath<f32> {
    let window = |path: &Path| f64::from(path.congestion.window());
    // Paths without data in flight are no part of the flow.
    let in_use = || active(paths).filter(|(_, path)| path.flight > 0);
    let rate = |path: &Path| window(path) / round_trip(path).as_secs_f64().max(1e-6);
    let total: f64 = in_use().map(|(_, path)| rate(path)).sum();
    let best = in_use().map(|(_, path)| rate(path) / round_trip(path).as_secs_f64().max(1e-6));
    let best = best.fold(0.0, f64::max);
    let mut shares = PerPath::filled(1.0);
    for (index, path) in in_use() {
        shares[index] = (window(path) * best / (total * total)).min(1.0) as f32;
    }
    shares
}
