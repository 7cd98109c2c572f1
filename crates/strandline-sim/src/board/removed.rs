//! Addresses that the peer has deleted. An address that comes back is another path: nothing that was sent to it before,
//! or acknowledged there, counts for it.

use core::net::IpAddr;

use super::Board;

impl Board {
    /// Allows the retransmission of everything outstanding at an address that the peer has deleted, and of what a SACK
    /// for the first transmission makes look lost afterwards. If the address comes back, nothing is known of its
    /// round trips, and nothing was acknowledged there.
    pub(crate) fn on_removed(&mut self, address: IpAddr) {
        self.excuse(Some(address));
        self.late.remove(address);
        self.silences.forget(address);
        self.traffic.remove(address);
        self.lost.remove(address);
        self.abandoned.on_removed(address);
        // The mark may have been of that path.
        self.echoed = self.echoed.map(|(tsn, _)| (tsn, None));
        for chunk in &mut self.chunks {
            chunk.moved_from.retain(|before| *before != address);
            if chunk.to == address {
                (chunk.orphaned, chunk.forgotten) = (true, true);
            }
        }
    }
}
