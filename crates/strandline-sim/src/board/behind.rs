//! What is acknowledged behind gaps (RFC 8985 section 6.2 step 4), for each address by itself: what another path brings late makes no
//! gap there.

use core::net::IpAddr;

/// Packets, or SACKs that told of some, behind a gap from which on nothing is waited for (DupThresh).
const MANY: u32 = 3;

/// One address.
#[derive(Debug, Clone, Copy)]
struct Behind {
    of: IpAddr,
    /// Something that went there is missing, as far as the chunks have been looked at.
    missing: bool,
    /// Chunks named behind that, and their bytes.
    chunks: u32,
    bytes: u32,
    /// One of them was named for the first time.
    newly: bool,
    /// SACKs of which that is true since there is a gap.
    sacks: u32,
}

/// All addresses that anything is under way to.
#[derive(Debug, Default)]
pub(super) struct BehindGaps {
    addresses: Vec<Behind>,
}

impl BehindGaps {
    /// A SACK is about to be looked at, chunk by chunk in the order of TSNs.
    pub(super) fn begin(&mut self) {
        for one in &mut self.addresses {
            (one.missing, one.chunks, one.bytes, one.newly) = (false, 0, 0, false);
        }
    }

    /// The next chunk. `named`: by this SACK; `newly`: for the first time.
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

    /// All chunks have been looked at.
    pub(super) fn end(&mut self) {
        for one in &mut self.addresses {
            one.sacks = if one.chunks == 0 { 0 } else { one.sacks + u32::from(one.newly) };
        }
    }

    /// Enough for nothing to be waited for.
    pub(super) fn are_many(&self, of: IpAddr, mtu_min: u32) -> bool {
        self.addresses
            .iter()
            .find(|one| one.of == of)
            .is_some_and(|one| one.sacks >= MANY || one.chunks >= MANY || one.bytes >= 2 * mtu_min)
    }
}
