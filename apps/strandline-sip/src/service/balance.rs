//! Answers over UDP to whoever has proved nothing: its address may be another's, who would get what was never asked for. So
//! no address gets much more than came from it.

use core::hash::Hasher;
use core::net::IpAddr;

use siphasher::sip::SipHasher13;

use crate::transaction::Time;

/// Addresses share accounts by hash; who has to share is only kept shorter.
const ACCOUNTS: usize = 1 << 14;
/// Bytes that an address may get beyond what came from it, at once.
const BEYOND_MAX: u64 = 16 << 10;
/// And each second.
const BEYOND_PER_SEC: u64 = 2 << 10;

#[derive(Debug, Clone, Copy, Default)]
struct Account {
    beyond: u64,
    at_ms: u64,
}

/// What addresses got beyond what came from them.
#[derive(Debug)]
pub(super) struct Balance {
    hasher: SipHasher13,
    accounts: Vec<Account>,
    now_ms: u64,
}

impl Balance {
    pub(super) fn new(key: [u8; 16]) -> Self {
        let accounts = vec![Account::default(); ACCOUNTS];
        Self { hasher: SipHasher13::new_with_key(&key), accounts, now_ms: 0 }
    }

    pub(super) const fn set_now(&mut self, now: Time) {
        self.now_ms = now.as_millis();
    }

    /// May an answer of so many bytes go there, for a request of so many? That is counted.
    pub(super) fn allows(&mut self, address: IpAddr, came: usize, answer: usize) -> bool {
        let mut hasher = self.hasher;
        match address.to_canonical() {
            IpAddr::V4(address) => hasher.write_u32(address.to_bits()),
            IpAddr::V6(address) => hasher.write_u64((address.to_bits() >> 64) as u64),
        }
        let Some(account) = self.accounts.get_mut(hasher.finish() as usize % ACCOUNTS) else { return false };
        let forgotten = self.now_ms.saturating_sub(account.at_ms).saturating_mul(BEYOND_PER_SEC) / 1000;
        if forgotten > 0 {
            account.at_ms = self.now_ms;
        }
        let left = account.beyond.saturating_sub(forgotten).saturating_sub(came as u64);
        let with = account.beyond.saturating_sub(forgotten).saturating_add(answer as u64);
        let with = with.saturating_sub(came as u64);
        let allowed = with <= BEYOND_MAX;
        account.beyond = if allowed { with } else { left };
        allowed
    }
}

#[cfg(test)]
mod tests;
