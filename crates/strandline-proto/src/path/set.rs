//! The paths of an association, and the choice among them (RFC 9260 sections 6.4 and 8.2).

#[cfg(test)]
mod tests;

use core::net::IpAddr;

use super::destination::Path;
use super::state::PathState;
use crate::config::AssociationConfig;
use crate::congestion::Controller;
use crate::path_index::PathIndex;
use crate::time::Time;
use crate::zone;

/// The paths of an association: at least one and at most `PATHS_MAX`. The first is stored inline, so that an
/// association with one path needs no heap. Paths are never removed, so indices stay valid.
#[derive(Debug)]
pub(crate) struct PathSet {
    first: Path,
    more: Vec<Path>,
    primary: PathIndex,
}

impl PathSet {
    /// Creates a set of one path, the primary.
    pub(crate) fn new(first: Path) -> Self {
        Self { first, more: Vec::new(), primary: PathIndex::FIRST }
    }

    /// Adds a path. Returns `None` if there are already `PATHS_MAX`. If a path to the same IP address exists,
    /// returns its index and adds nothing.
    pub(crate) fn add(&mut self, path: Path) -> Option<PathIndex> {
        if let Some(present) = self.by_address(path.remote.ip()) {
            return Some(present);
        }
        let index = PathIndex::new(self.len())?;
        self.more.reserve_exact(1);
        self.more.push(path);
        Some(index)
    }

    /// True if there is a path with this index.
    pub(crate) fn contains(&self, index: PathIndex) -> bool {
        usize::from(index) < self.len()
    }

    /// Returns the index of a path by its number, which may come from the network.
    pub(crate) fn by_number(&self, number: u8) -> Option<PathIndex> {
        PathIndex::new(number.into()).filter(|index| self.contains(*index))
    }

    pub(crate) fn len(&self) -> usize {
        1 + self.more.len()
    }

    /// Returns the path of an index, if there is one.
    pub(crate) fn find(&self, index: PathIndex) -> Option<&Path> {
        match usize::from(index).checked_sub(1) {
            None => Some(&self.first),
            Some(at) => self.more.get(at),
        }
    }

    /// Returns the path of an index from [`add`](Self::add) or an iterator, and the first path for any other index.
    pub(crate) fn get(&self, index: PathIndex) -> &Path {
        debug_assert!(self.contains(index), "no such path: {index:?}");
        usize::from(index).checked_sub(1).and_then(|at| self.more.get(at)).unwrap_or(&self.first)
    }

    /// Returns a mutable reference to the path that [`get`](Self::get) returns.
    pub(crate) fn get_mut(&mut self, index: PathIndex) -> &mut Path {
        debug_assert!(self.contains(index), "no such path: {index:?}");
        match usize::from(index).checked_sub(1).and_then(|at| self.more.get_mut(at)) {
            Some(path) => path,
            None => &mut self.first,
        }
    }

    /// Returns the path to a link-local address given without its zone, if there is exactly one.
    pub(crate) fn in_any_zone(&self, address: IpAddr) -> Option<PathIndex> {
        let mut found = self.iter().filter(|(_, path)| zone::bare(path.remote.ip()) == address);
        let (index, _) = found.next()?;
        found.next().is_none().then_some(index)
    }

    /// Returns the path to an address. IPv4 addresses equal their IPv4-mapped IPv6 form.
    pub(crate) fn by_address(&self, address: IpAddr) -> Option<PathIndex> {
        if self.first.remote.ip() == address {
            return Some(PathIndex::FIRST);
        }
        let address = address.to_canonical();
        self.iter().find(|(_, path)| path.remote.ip().to_canonical() == address).map(|(index, _)| index)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PathIndex, &Path)> {
        self.indices().zip(core::iter::once(&self.first).chain(&self.more))
    }

    /// Returns the indices of all paths, for loops that modify the set.
    pub(crate) fn indices(&self) -> impl Iterator<Item = PathIndex> + use<> {
        PathIndex::first(self.len())
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

    /// Returns the path for new data (sections 6.4 and 8.2): the primary path while it is active, so that data
    /// returns to it as soon as possible; else the active path with the fewest errors; else a potentially failed one
    /// with the fewest errors (RFC 7829 section 3.2 rule 4); else the confirmed path that was not used for longest,
    /// so that all are tried in turn. `None` if no address is confirmed.
    pub(crate) fn data_path(&self) -> Option<PathIndex> {
        if self.get(self.primary).state == PathState::Active {
            return Some(self.primary);
        }
        self.best(PathState::Active, None)
            .or_else(|| self.best(PathState::PotentiallyFailed, None))
            .or_else(|| self.least_recent(None))
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
        if let Some(other) = self.best(PathState::PotentiallyFailed, None) {
            return (other != failed).then_some(other);
        }
        self.least_recent(Some(failed))
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
        let Some(silence_max) = config.path_silence_max.filter(|_| self.len() > 1) else { return Time::MAX };
        let at = self.get(index).silence_deadline(silence_max);
        if at == Time::MAX || self.active_other_than(index).is_none() { Time::MAX } else { at }
    }

    /// Returns the length of the longest SCTP packet, common header included, that every confirmed path carries.
    /// Chunks fragmented to it can be retransmitted on any path (AMDCS, section 7.3).
    pub(crate) fn payload_max(&self) -> usize {
        if self.more.is_empty() {
            return self.first.payload_max(); // Called for each packet.
        }
        let confirmed = self.iter().filter(|(_, path)| path.state != PathState::Unconfirmed);
        confirmed.map(|(_, path)| path.payload_max()).min().unwrap_or_else(|| self.first.payload_max())
    }

    /// Returns the next deadline of all paths.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Time {
        if self.more.is_empty() {
            return self.first.next_deadline(); // Called for each packet.
        }
        self.more.iter().fold(self.first.next_deadline(), |least, path| least.min(path.next_deadline()))
    }

    /// Returns the number of bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let controllers: usize = self.iter().map(|(_, path)| path.congestion.heap_bytes()).sum();
        self.more.capacity() * size_of::<Path>() + controllers
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
