//! The paths of an association, and the choice among them (RFC 9260 sections 6.4 and 8.2).

#[cfg(test)]
mod tests;

use core::net::IpAddr;

use super::destination::Path;
use super::state::PathState;
use crate::config::AssociationConfig;
use crate::congestion::Controller;
use crate::path_index::{PathIndex, PathMask};
use crate::time::Time;
use crate::zone;

/// The paths of an association, at least one and at most `PATHS_MAX`, and its local addresses. The first path is stored
/// inline, so that an association with one path needs no heap. A path keeps its index as long as it exists; the index
/// of a removed one goes to the next that is added.
#[derive(Debug)]
pub(crate) struct PathSet {
    /// The path with the first index, or what is left of it if that is not in `present`.
    first: Path,
    present: PathMask,
    primary: PathIndex,
    more: Option<Box<More>>,
}

/// What associations with several addresses need.
#[derive(Debug, Default)]
struct More {
    /// The paths with the second index and higher, with what is left of removed ones in between.
    paths: Vec<Path>,
    /// See [`PathSet::local`].
    local: Vec<IpAddr>,
}

impl PathSet {
    /// Creates a set of one path, the primary.
    pub(crate) fn new(first: Path) -> Self {
        Self { first, present: PathMask::of(PathIndex::FIRST), primary: PathIndex::FIRST, more: None }
    }

    /// Replaces all paths by one, the primary. Local addresses stay.
    pub(crate) fn replace(&mut self, first: Path) {
        let local = self.more.take().map(|more| more.local).unwrap_or_default();
        *self = Self::new(first);
        self.set_local(local);
    }

    /// Adds a path. Returns `None` if there are already `PATHS_MAX`. If a path to the same IP address exists,
    /// returns its index and adds nothing.
    pub(crate) fn add(&mut self, path: Path) -> Option<PathIndex> {
        if let Some(present) = self.by_address(path.remote.ip()) {
            return Some(present);
        }
        let index = self.present.free()?;
        match usize::from(index).checked_sub(1) {
            None => self.first = path,
            Some(at) => {
                let paths = &mut self.more.get_or_insert_default().paths;
                match paths.get_mut(at) {
                    Some(place) => *place = path,
                    None => {
                        paths.reserve_exact(1);
                        paths.push(path);
                    }
                }
            }
        }
        self.present.insert(index);
        Some(index)
    }

    /// Removes a path that nothing refers to any more, except as the primary path: that moves to the path
    /// that [`data_path`](Self::data_path) returns, or to `heir` if no other path is confirmed. Returns false
    /// without a change if there is neither.
    pub(crate) fn remove(&mut self, index: PathIndex, heir: Option<PathIndex>) -> bool {
        let heir = heir.filter(|heir| *heir != index && self.contains(*heir));
        if !self.contains(index) || !(self.confirmed_other_than(index) || heir.is_some()) {
            return false;
        }
        self.present.remove(index);
        if self.primary == index {
            self.primary = self.replacement().or(heir).unwrap_or(self.primary);
        }
        if let Some(more) = &mut self.more {
            while PathIndex::new(more.paths.len()).is_some_and(|last| !self.present.contains(last))
                && more.paths.pop().is_some()
            {}
            more.paths.shrink_to_fit();
        }
        self.free_more();
        true
    }

    /// Returns the association's own local addresses. Empty if it has those of its endpoint.
    pub(crate) fn local(&self) -> &[IpAddr] {
        self.more.as_ref().map_or(&[], |more| &more.local)
    }

    /// True if packets to the address, if that is known, are for the association: always if it has no local addresses
    /// of its own.
    #[inline]
    pub(crate) fn is_at(&self, destination: Option<IpAddr>) -> bool {
        self.more.is_none() || self.is_at_own(destination)
    }

    /// As [`is_at`](Self::is_at), for a packet from `source` as it came.
    #[inline]
    pub(crate) fn takes(&self, destination: Option<IpAddr>, source: IpAddr) -> bool {
        let arrived_at = || destination.map(|to| zone::arrived_at(to, source));
        self.more.is_none() || self.is_at_own(arrived_at())
    }

    #[cold]
    fn is_at_own(&self, destination: Option<IpAddr>) -> bool {
        let is = |address| self.local().iter().any(|own| zone::is_at(*own, address));
        self.local().is_empty() || destination.is_none_or(is)
    }

    /// Sets the association's own local addresses; with none it has those of its endpoint.
    pub(crate) fn set_local(&mut self, local: Vec<IpAddr>) {
        if self.more.is_some() || !local.is_empty() {
            self.more.get_or_insert_default().local = local;
        }
        self.free_more();
    }

    fn free_more(&mut self) {
        self.more.take_if(|more| more.paths.is_empty() && more.local.is_empty());
    }

    /// True if there is a path with this index.
    #[inline]
    pub(crate) fn contains(&self, index: PathIndex) -> bool {
        self.present.contains(index)
    }

    /// Returns the index of a path by its number, which may come from the network.
    pub(crate) fn by_number(&self, number: u8) -> Option<PathIndex> {
        PathIndex::new(number.into()).filter(|index| self.contains(*index))
    }

    pub(crate) fn len(&self) -> usize {
        self.present.len()
    }

    /// True if there are two paths or more.
    #[inline]
    pub(crate) fn has_several(&self) -> bool {
        self.more.is_some() && self.present.has_several()
    }

    /// Returns the path of an index, if there is one.
    pub(crate) fn find(&self, index: PathIndex) -> Option<&Path> {
        self.contains(index).then(|| self.get(index))
    }

    /// Returns the path of an index from [`add`](Self::add) or an iterator, and the first path for any other index.
    #[inline]
    pub(crate) fn get(&self, index: PathIndex) -> &Path {
        debug_assert!(self.contains(index), "no such path: {index:?}");
        let Some(more) = &self.more else { return &self.first };
        usize::from(index).checked_sub(1).and_then(|at| more.paths.get(at)).unwrap_or(&self.first)
    }

    /// Returns a mutable reference to the path that [`get`](Self::get) returns.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: PathIndex) -> &mut Path {
        debug_assert!(self.contains(index), "no such path: {index:?}");
        let Some(more) = &mut self.more else { return &mut self.first };
        usize::from(index).checked_sub(1).and_then(|at| more.paths.get_mut(at)).unwrap_or(&mut self.first)
    }

    /// Returns the path to a link-local address given without its zone, if there is exactly one.
    pub(crate) fn in_any_zone(&self, address: IpAddr) -> Option<PathIndex> {
        let mut found = self.iter().filter(|(_, path)| zone::bare(path.remote.ip()) == address);
        let (index, _) = found.next()?;
        found.next().is_none().then_some(index)
    }

    /// Returns the path to an address. IPv4 addresses equal their IPv4-mapped IPv6 form.
    pub(crate) fn by_address(&self, address: IpAddr) -> Option<PathIndex> {
        if self.first.remote.ip() == address && (self.more.is_none() || self.contains(PathIndex::FIRST)) {
            return Some(PathIndex::FIRST);
        }
        self.by_canonical_address(address)
    }

    #[cold]
    fn by_canonical_address(&self, address: IpAddr) -> Option<PathIndex> {
        let address = address.to_canonical();
        self.iter().find(|(_, path)| path.remote.ip().to_canonical() == address).map(|(index, _)| index)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PathIndex, &Path)> {
        self.present.map(|index| (index, self.get(index)))
    }

    /// Returns the indices of all paths, for loops that modify the set.
    #[inline]
    pub(crate) fn indices(&self) -> PathMask {
        self.present
    }

    /// Returns all indices, the path with the oldest HEARTBEAT first, so that paths which HB.Max.Burst left out are
    /// next.
    pub(crate) fn indices_by_heartbeat(&self) -> impl Iterator<Item = PathIndex> + use<> {
        let mut order = PathIndex::ALL.map(|index| (Time::MAX, index));
        for (slot, (index, path)) in order.iter_mut().zip(self.iter()) {
            *slot = (path.heartbeat.sent_at(), index);
        }
        order.sort();
        order.into_iter().map(|(_, index)| index).take(self.len())
    }

    pub(crate) fn primary(&self) -> PathIndex {
        self.primary
    }

    /// Returns the address of the primary path, which stands for the peer in limits for each peer.
    pub(crate) fn primary_address(&self) -> IpAddr {
        self.get(self.primary).remote.ip()
    }

    /// Sets the primary path (section 6.4). Returns false without a change if the path is not confirmed.
    pub(crate) fn set_primary(&mut self, index: PathIndex) -> bool {
        let confirmed = self.get(index).state != PathState::Unconfirmed;
        if confirmed {
            self.primary = index;
        }
        confirmed
    }

    /// Returns the path for new data (sections 6.4 and 8.2): the primary path while it is active, so that
    /// data returns to it as soon as possible; else the active path with the fewest errors; else a
    /// potentially failed one with the fewest errors (RFC 7829 section 3.2 rule 4); else an ambiguous one;
    /// else the confirmed path that was not used for longest, so that all are tried in turn. `None` if no
    /// address is confirmed.
    pub(crate) fn data_path(&self) -> Option<PathIndex> {
        if self.get(self.primary).state == PathState::Active {
            return Some(self.primary);
        }
        self.replacement()
    }

    /// Returns the path for new data if the primary path does not work.
    fn replacement(&self) -> Option<PathIndex> {
        self.best(PathState::Active, None).or_else(|| best_failed(self)).or_else(|| self.least_recent(None))
    }

    /// Returns the path for data that timed out on `failed` (section 6.4.1): the other active path with the fewest
    /// errors. If there is none and `failed` is not active, another confirmed path is chosen as in
    /// [`data_path`](Self::data_path). `None` means that the data stays on `failed`.
    pub(crate) fn alternate(&self, failed: PathIndex) -> Option<PathIndex> {
        if let Some(other) = self.best(PathState::Active, Some(failed)) {
            return Some(other);
        }
        if self.get(failed).state == PathState::Active {
            return None;
        }
        if let Some(other) = best_failed(self) {
            return (other != failed).then_some(other);
        }
        self.least_recent(Some(failed))
    }

    /// Returns the bytes of chunks that fit a packet which retransmits what timed out on this path. The packet may use
    /// another one, whose MTU counts (section 6.3.3 E3).
    pub(crate) fn room_after_timeout(&self, index: PathIndex) -> u32 {
        self.get(self.alternate(index).unwrap_or(index)).data_chunk_len_max()
    }

    /// Returns the other active path with the fewest errors.
    pub(crate) fn active_other_than(&self, path: PathIndex) -> Option<PathIndex> {
        self.best(PathState::Active, Some(path))
    }

    /// True if another path is active or potentially failed.
    pub(crate) fn usable_other_than(&self, path: PathIndex) -> bool {
        self.active_other_than(path).or_else(|| self.best(PathState::PotentiallyFailed, Some(path))).is_some()
    }

    /// True if another path is confirmed, whether or not it works now.
    pub(crate) fn confirmed_other_than(&self, path: PathIndex) -> bool {
        self.least_recent(Some(path)).is_some()
    }

    /// Returns when a path counts as silent, which matters only while another path is active.
    pub(crate) fn silence_deadline(&self, index: PathIndex, config: &AssociationConfig) -> Time {
        let Some(silence_max) = config.path_silence_max.filter(|_| self.has_several()) else {
            return Time::MAX;
        };
        let at = self.get(index).silence_deadline(silence_max);
        if at == Time::MAX || self.active_other_than(index).is_none() { Time::MAX } else { at }
    }

    /// Returns the length of the longest SCTP packet, common header included, that every confirmed path carries.
    /// Chunks fragmented to it can be retransmitted on any path (AMDCS, section 7.3).
    #[inline]
    pub(crate) fn payload_max(&self) -> usize {
        if self.more.is_none() {
            return self.first.payload_max(); // Called for each packet.
        }
        let confirmed = self.iter().filter(|(_, path)| path.state != PathState::Unconfirmed);
        confirmed
            .map(|(_, path)| path.payload_max())
            .min()
            .unwrap_or_else(|| self.get(self.primary).payload_max())
    }

    /// Returns the next deadline of all paths.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Time {
        if self.more.is_none() {
            return self.first.next_deadline(); // Called for each packet.
        }
        self.iter().map(|(_, path)| path.next_deadline()).min().unwrap_or(Time::MAX)
    }

    /// Returns the number of bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let controllers: usize = self.iter().map(|(_, path)| path.congestion.heap_bytes()).sum();
        let more = self.more.as_ref().map_or(0, |more| {
            let local = more.local.capacity() * size_of::<IpAddr>();
            size_of::<More>() + more.paths.capacity() * size_of::<Path>() + local
        });
        more + controllers
    }

    /// Releases memory of the controllers when nothing has been outstanding for a while.
    pub(crate) fn release_idle(&mut self) {
        for index in self.indices() {
            self.get_mut(index).congestion.release_idle();
        }
    }

    fn best(&self, state: PathState, except: Option<PathIndex>) -> Option<PathIndex> {
        self.iter()
            .filter(|(index, path)| path.state == state && Some(*index) != except)
            .min_by_key(|(index, path)| (path.error_count, *index != self.primary))
            .map(|(index, _)| index)
    }

    fn least_recent(&self, except: Option<PathIndex>) -> Option<PathIndex> {
        self.iter()
            .filter(|(index, path)| path.state != PathState::Unconfirmed && Some(*index) != except)
            .min_by_key(|(_, path)| path.last_sent)
            .map(|(index, _)| index)
    }
}

/// Returns the best path that is not active and may work: a potentially failed one, else an ambiguous one.
fn best_failed(paths: &PathSet) -> Option<PathIndex> {
    paths.best(PathState::PotentiallyFailed, None).or_else(|| paths.best(PathState::Ambiguous, None))
}

/// Returns a path that may work, if this one is inactive and no path is active.
pub(crate) fn substitute(paths: &PathSet, index: PathIndex) -> Option<PathIndex> {
    if paths.get(index).state == PathState::Inactive { best_failed(paths) } else { None }
}

/// True if no path is active or potentially failed (dormant state, RFC 7829 section 4).
pub(crate) fn is_dormant(paths: &PathSet) -> bool {
    paths.iter().all(|(_, path)| path.state.is_inactive() || path.state == PathState::Unconfirmed)
}
