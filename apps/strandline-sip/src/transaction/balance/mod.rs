//! Protection against reflection over UDP. The source address of a request may be forged, and its owner would
//! get traffic that it never asked for. So no address is sent much more than was received from it, until a
//! message arrives that only the owner of the address can send.

mod proven;

use core::cell::Cell;
use core::hash::Hasher;
use core::net::IpAddr;

use siphasher::sip::SipHasher13;

use super::time::Time;
use proven::Proven;

/// Number of accounts. Addresses share them by hash; sharing one only lowers what an address may get.
const ACCOUNTS: usize = 1 << 14;
/// Maximum number of bytes sent to an address beyond what was received from it, as a burst.
const BEYOND_MAX: i64 = 16 << 10;
/// As [`BEYOND_MAX`], for provisional responses: a final response must fit after them.
const BEYOND_PROVISIONAL_MAX: i64 = BEYOND_MAX / 2;
/// Maximum credit in bytes: what was received from an address and not yet answered.
const AHEAD_MAX: i64 = 1 << 20;
/// Rate at which credit and debt decay, in bytes per second.
const FORGOTTEN_PER_SEC: u64 = 2 << 10;

#[derive(Debug, Clone, Copy, Default)]
struct Account {
    /// Bytes sent minus bytes received; negative if more was received.
    beyond: i64,
    at_ms: u64,
}

impl Account {
    fn forget(&mut self, now_ms: u64) {
        let forgotten = now_ms.saturating_sub(self.at_ms).saturating_mul(FORGOTTEN_PER_SEC) / 1000;
        if forgotten > 0 {
            self.at_ms = now_ms;
            let left = self.beyond.unsigned_abs().saturating_sub(forgotten);
            // No account holds more than an `i64`.
            self.beyond = self.beyond.signum() * left as i64;
        }
    }
}

/// The hashes of an address.
#[derive(Debug, Clone, Copy)]
struct Marks {
    address: IpAddr,
    /// The hash of the address itself, for proofs: another address of the same /64 may belong to somebody
    /// else.
    own: u64,
    /// The hash of the network, for accounts: for IPv6 the /64, because the owner of one of its addresses
    /// usually has all.
    network: u64,
}

/// Bytes sent to addresses beyond what was received from them, and the addresses that have proved that they
/// receive what is sent to them.
#[derive(Debug)]
pub(crate) struct Balance {
    hasher: SipHasher13,
    /// The last address and its hashes; each message looks them up several times.
    last: Cell<Option<Marks>>,
    accounts: Vec<Account>,
    proven: Proven,
}

impl Balance {
    pub(crate) fn new(key: [u8; 16]) -> Self {
        let hasher = SipHasher13::new_with_key(&key);
        let accounts = vec![Account::default(); ACCOUNTS];
        Self { hasher, last: Cell::new(None), accounts, proven: Proven::new() }
    }

    fn marks(&self, address: IpAddr) -> Marks {
        if let Some(last) = self.last.get().filter(|last| last.address == address) {
            return last;
        }
        let mut hasher = self.hasher;
        let (own, network) = match address.to_canonical() {
            IpAddr::V4(address) => {
                hasher.write_u32(address.to_bits());
                (hasher.finish(), hasher.finish())
            }
            IpAddr::V6(address) => {
                hasher.write_u64((address.to_bits() >> 64) as u64);
                let network = hasher.finish();
                hasher.write_u64(address.to_bits() as u64);
                (hasher.finish(), network)
            }
        };
        let marks = Marks { address, own, network };
        self.last.set(Some(marks));
        marks
    }

    fn account(&mut self, now: Time, address: IpAddr) -> Option<&mut Account> {
        let network = self.marks(address).network;
        let account = self.accounts.get_mut(network as usize % ACCOUNTS)?;
        account.forget(now.as_millis());
        Some(account)
    }

    /// Counts bytes received from an address.
    pub(crate) fn came(&mut self, now: Time, address: IpAddr, bytes: usize) {
        if let Some(account) = self.account(now, address) {
            account.beyond = account.beyond.saturating_sub_unsigned(bytes as u64).max(-AHEAD_MAX);
        }
    }

    /// Returns true if `bytes` may be sent to an unproven address, and counts them if so.
    pub(crate) fn allows(&mut self, now: Time, address: IpAddr, bytes: usize, provisional: bool) -> bool {
        let Some(account) = self.account(now, address) else { return false };
        let with = account.beyond.saturating_add_unsigned(bytes as u64);
        let allowed = with <= if provisional { BEYOND_PROVISIONAL_MAX } else { BEYOND_MAX };
        if allowed {
            account.beyond = with;
        }
        allowed
    }

    /// Records that a message arrived that only a receiver at this address can have sent.
    pub(crate) fn prove(&mut self, now: Time, address: IpAddr) {
        let own = self.marks(address).own;
        self.proven.insert(own, now.as_millis());
    }

    /// Returns true if the address has proved itself recently.
    pub(crate) fn is_proven(&self, now: Time, address: IpAddr) -> bool {
        self.proven.contains(self.marks(address).own, now.as_millis())
    }
}

#[cfg(test)]
mod tests;
