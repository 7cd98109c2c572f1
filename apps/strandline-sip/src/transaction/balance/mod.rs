//! Answers over UDP to whoever has proved nothing: its address may be another's, who would get what was never asked for. So
//! no address gets much more than came from it, until something has come that only its owner can know.

mod proven;

use core::cell::Cell;
use core::hash::Hasher;
use core::net::IpAddr;

use siphasher::sip::SipHasher13;

use super::time::Time;
use proven::Proven;

/// Addresses share accounts by hash; who has to share is only kept shorter.
const ACCOUNTS: usize = 1 << 14;
/// Bytes that an address may get beyond what came from it, at once.
const BEYOND_MAX: i64 = 16 << 10;
/// Bytes of provisional responses that an address may get beyond what came from it: a final response must have room after them.
const BEYOND_PROVISIONAL_MAX: i64 = BEYOND_MAX / 2;
/// Bytes that came and were not answered yet, of which so many count later.
const AHEAD_MAX: i64 = 1 << 20;
/// Either is forgotten, so many bytes each second.
const FORGOTTEN_PER_SEC: u64 = 2 << 10;

#[derive(Debug, Clone, Copy, Default)]
struct Account {
    /// Less than nothing if more came than went.
    beyond: i64,
    at_ms: u64,
}

impl Account {
    fn forget(&mut self, now_ms: u64) {
        let forgotten = now_ms.saturating_sub(self.at_ms).saturating_mul(FORGOTTEN_PER_SEC) / 1000;
        if forgotten > 0 {
            self.at_ms = now_ms;
            let left = self.beyond.unsigned_abs().saturating_sub(forgotten);
            // No account has more than fits.
            self.beyond = self.beyond.signum() * left as i64;
        }
    }
}

/// What stands for an address.
#[derive(Debug, Clone, Copy)]
struct Marks {
    address: IpAddr,
    /// The address itself: who shares a /64 with somebody may be somebody else, and proves nothing for them.
    own: u64,
    /// The network of the address, of IPv6 the /64: whoever has one address of it has them all, and one account.
    network: u64,
}

/// What addresses got beyond what came from them, and which have proved that they get it.
#[derive(Debug)]
pub(crate) struct Balance {
    hasher: SipHasher13,
    /// A message is asked about several times.
    last: Cell<Option<Marks>>,
    accounts: Vec<Account>,
    proven: Proven,
    now_ms: u64,
}

impl Balance {
    pub(crate) fn new(key: [u8; 16]) -> Self {
        let hasher = SipHasher13::new_with_key(&key);
        let accounts = vec![Account::default(); ACCOUNTS];
        Self { hasher, last: Cell::new(None), accounts, proven: Proven::new(), now_ms: 0 }
    }

    pub(crate) const fn set_now(&mut self, now: Time) {
        self.now_ms = now.as_millis();
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

    fn account(&mut self, address: IpAddr) -> Option<&mut Account> {
        let network = self.marks(address).network;
        let account = self.accounts.get_mut(network as usize % ACCOUNTS)?;
        account.forget(self.now_ms);
        Some(account)
    }

    /// Something came from there.
    pub(crate) fn came(&mut self, address: IpAddr, bytes: usize) {
        if let Some(account) = self.account(address) {
            account.beyond = account.beyond.saturating_sub_unsigned(bytes as u64).max(-AHEAD_MAX);
        }
    }

    /// May an answer of so many bytes go there, though nothing is proved? It is counted if it may.
    pub(crate) fn allows(&mut self, address: IpAddr, bytes: usize, provisional: bool) -> bool {
        let Some(account) = self.account(address) else { return false };
        let with = account.beyond.saturating_add_unsigned(bytes as u64);
        let allowed = with <= if provisional { BEYOND_PROVISIONAL_MAX } else { BEYOND_MAX };
        if allowed {
            account.beyond = with;
        }
        allowed
    }

    /// Something came from there that only who gets what goes there can know.
    pub(crate) fn prove(&mut self, address: IpAddr) {
        let own = self.marks(address).own;
        self.proven.insert(own, self.now_ms);
    }

    /// Did anything of late?
    pub(crate) fn is_proven(&self, address: IpAddr) -> bool {
        self.proven.contains(self.marks(address).own, self.now_ms)
    }
}

#[cfg(test)]
mod tests;
