//! Chunks acknowledged beyond gaps (RFC 8985 section 6.2 step 4), for each address separately: data that another path
//! delivers late makes no gap there.

use core::net::IpAddr;

/// Number of packets, or of SACKs that report some, beyond a gap from which on there is no reordering window
/// (DupThresh).
const MANY: u32 = 3;

/// The state of one address.
#[derive(Debug, Clone, Copy)]
struct Behind {
    of: IpAddr,
    /// True if a chunk sent there is missing, among the chunks examined so far.
    missing: bool,
    /// Number of chunks reported beyond that, and their bytes.
    chunks: u32,
    bytes: u32,
    /// True if one of them was reported for the first time.
    newly: bool,
    /// Number of SACKs with such chunks since there is a gap.
    sacks: u32,
}

/// The state of all addresses with data in flight.
#[derive(Debug, Default)]
pub(super) struct BehindGaps {
    addresses: Vec<Behind>,
}

impl BehindGaps {
    /// Begins a SACK, whose chunks are examined in the order of TSNs.
    pub(super) fn begin(&mut self) {
        for one in &mut self.addresses {
            (one.missing, one.chunks, one.bytes, one.newly) = (false, 0, 0, false);
        }
    }

    /// Examines the next chunk. `named` is true if this SACK reports it, `newly` if for the first time.
    pub(super) fn look(&mut self, of: IpAddr, bytes: u32, named: bool, newly: bool) {
        let at = self.addresses.iter().position(|one| one.of == of).unwrap_or_else(|| {
            self.addresses.push(Behind { of, missing: false, chunks: 0, bytes: 0, newly: false, sacks: 0 });
            self.addresses.len() - 1
        });
        let Some(one) = self.addresses.get_mut(at) else { return };
        if !named {
            one.missing = true;
        } else if one.missing {
            one.chunks += 1;
            one.bytes += bytes;
            one.newly |= newly;
        }
    }

    /// Ends the SACK after all chunks.
    pub(super) fn end(&mut self) {
        for one in &mut self.addresses {
            one.sacks = if one.chunks == 0 { 0 } else { one.sacks + u32::from(one.newly) };
        }
    }

    /// True if enough was acknowledged beyond the gap that there is no reordering window.
    pub(super) fn are_many(&self, of: IpAddr, mtu_min: u32) -> bool {
        self.addresses
            .iter()
            .find(|one| one.of == of)
            .is_some_and(|one| one.sacks >= MANY || one.chunks >= MANY || one.bytes >= 2 * mtu_min)
    }
}
