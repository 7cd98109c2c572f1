//! Chunks acknowledged beyond gaps (RFC 8985 section 6.2 step 4), for each address separately: data that another path
//! delivers late makes no gap there.

use core::net::IpAddr;

use strandline_wire::Tsn;

/// Number of packets, or of SACKs that report some, beyond a gap from which on there is no reordering window
/// (DupThresh).
const MANY: u32 = 3;

/// The state of one address.
#[derive(Debug, Clone, Copy)]
struct Behind {
    of: IpAddr,
    /// The first missing chunk of those sent there, among the chunks examined so far.
    missing: Option<Tsn>,
    /// The first missing chunk by the previous SACK.
    missing_before: Option<Tsn>,
    /// Number of chunks reported beyond that, and their bytes.
    chunks: u32,
    bytes: u32,
    /// True if one of them was reported for the first time.
    newly: bool,
    /// Number of SACKs with such chunks since there is this gap.
    sacks: u32,
}

impl Behind {
    fn of(of: IpAddr) -> Self {
        Self { of, missing: None, missing_before: None, chunks: 0, bytes: 0, newly: false, sacks: 0 }
    }
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
            (one.missing_before, one.missing) = (one.missing, None);
            (one.chunks, one.bytes, one.newly) = (0, 0, false);
        }
    }

    /// Examines the next chunk. `named` is true if this SACK reports it, `newly` if for the first time.
    pub(super) fn look(&mut self, of: IpAddr, (tsn, bytes): (Tsn, u32), named: bool, newly: bool) {
        let at = self.addresses.iter().position(|one| one.of == of).unwrap_or_else(|| {
            self.addresses.push(Behind::of(of));
            self.addresses.len() - 1
        });
        let Some(one) = self.addresses.get_mut(at) else { return };
        if !named {
            one.missing = one.missing.or(Some(tsn));
        } else if one.missing.is_some() {
            one.chunks += 1;
            one.bytes += bytes;
            one.newly |= newly;
        }
    }

    /// Ends the SACK after all chunks.
    pub(super) fn end(&mut self) {
        for one in &mut self.addresses {
            if one.chunks == 0 || one.missing != one.missing_before {
                one.sacks = 0;
            }
            one.sacks += u32::from(one.newly);
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
