//! Shared keys of RFC 4895 (RFC 6458 sections 8.1.18 and 8.3.3 to 8.3.5): both sides have the same ones from
//! the beginning, and an application activates others, deactivates and deletes them while the association
//! exists.

use core::time::Duration;
use std::collections::BTreeSet;

use strandline_proto::authentication::{AuthenticationEvent, KeyId, SharedKey};
use strandline_proto::endpoint::{Endpoint, KeyChange};
use strandline_proto::error::KeyError;
use strandline_proto::event::AssociationId;
use strandline_proto::time::Time;

use crate::notes::Note;
use crate::random::Random;
use crate::violation::{Violation, demand, violation};

/// The keys that all hosts of a run have, besides the null key with identifier 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeySet {
    /// Seed of the secrets.
    pub(crate) seed: u64,
    /// The identifiers are 1 to this one.
    pub(crate) last: u16,
    /// The key that associations begin with.
    pub(crate) first: u16,
}

impl KeySet {
    /// Returns the secret of a key.
    fn secret(&self, id: u16) -> SharedKey {
        let mut random = Random::stream(self.seed, u64::from(id));
        let mut bytes = vec![0; random.range(1, 64) as usize];
        random.fill(&mut bytes);
        if id == 0 { SharedKey::default() } else { SharedKey::new(&bytes) }
    }

    /// Gives the keys to a host that has booted.
    pub(crate) fn give(&self, endpoint: &mut Endpoint) -> Result<(), KeyError> {
        for id in 1..=self.last {
            KeyChange::Set(KeyId(id), self.secret(id)).apply_to_new(endpoint)?;
        }
        KeyChange::Activate(KeyId(self.first)).apply_to_new(endpoint)
    }
}

/// How an application changes keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyPlan {
    /// Seed of its choices.
    pub(crate) seed: u64,
    /// Maximum time between two changes.
    pub(crate) pause_max: Duration,
    pub(crate) keys: KeySet,
    /// True if keys are used in ascending order, by both sides, and deleted behind them. Otherwise in any order.
    pub(crate) retires: bool,
}

/// The state of one application.
#[derive(Debug)]
pub(crate) struct Keying {
    random: Random,
    plan: KeyPlan,
    next: Time,
    /// True once the caller knows when it wants to act next.
    announced: bool,
    active: u16,
    /// The key that the peer uses, as far as its packets have shown.
    peers: u16,
    deleted: BTreeSet<u16>,
}

impl Keying {
    pub(crate) fn new(now: Time, plan: KeyPlan) -> Self {
        let mut random = Random::new(plan.seed);
        let next = now + random.duration(Duration::ZERO, plan.pause_max);
        let KeySet { first, .. } = plan.keys;
        Self { random, plan, next, announced: false, active: first, peers: first, deleted: BTreeSet::new() }
    }

    /// Changes something if the time has come. Returns once when it wants to act again.
    pub(crate) fn act(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
        notes: &mut Vec<(AssociationId, Note)>,
    ) -> Result<Option<Time>, Violation> {
        if now < self.next {
            return Ok((!core::mem::replace(&mut self.announced, true)).then_some(self.next));
        }
        self.announced = true;
        self.next = now + self.random.duration(Duration::from_millis(1), self.plan.pause_max);
        match self.random.below(8) {
            0 => self.misuse(endpoint, id)?,
            1 | 2 if self.plan.retires => self.retire(endpoint, id, notes)?,
            3 => self.set_again(endpoint, id, notes)?,
            _ => {
                let wanted = match self.plan.retires {
                    true => (self.active + 1).min(self.plan.keys.last),
                    false => self.random.range(0, u64::from(self.plan.keys.last)) as u16,
                };
                // Once a peer without authentication restarts with it, the first key is active.
                if self.apply(endpoint, id, KeyChange::Activate(KeyId(wanted)), Ok(()))? {
                    self.active = wanted;
                    notes.push((id, Note::Active(wanted)));
                }
            }
        }
        Ok(Some(self.next))
    }

    /// Deactivates and deletes the keys that neither side will use again. Those with which a restarted peer
    /// begins stay.
    fn retire(
        &mut self,
        endpoint: &mut Endpoint,
        id: AssociationId,
        notes: &mut Vec<(AssociationId, Note)>,
    ) -> Result<(), Violation> {
        for key in 0..self.active.min(self.peers) {
            if key == self.plan.keys.first || self.deleted.contains(&key) {
                continue;
            }
            self.apply(endpoint, id, KeyChange::Deactivate(KeyId(key)), Ok(()))?;
            let again = Err(KeyError::Deactivated(KeyId(key)));
            self.apply(endpoint, id, KeyChange::Activate(KeyId(key)), again)?;
            self.apply(endpoint, id, KeyChange::Delete(KeyId(key)), Ok(()))?;
            self.deleted.insert(key);
            notes.push((id, Note::Deleted(key)));
        }
        Ok(())
    }

    /// Sets a key that was deleted, or one that the association has.
    fn set_again(
        &mut self,
        endpoint: &mut Endpoint,
        id: AssociationId,
        notes: &mut Vec<(AssociationId, Note)>,
    ) -> Result<(), Violation> {
        let key = self.random.range(0, u64::from(self.plan.keys.last)) as u16;
        self.set(endpoint, id, key, notes)
    }

    fn set(
        &mut self,
        endpoint: &mut Endpoint,
        id: AssociationId,
        key: u16,
        notes: &mut Vec<(AssociationId, Note)>,
    ) -> Result<(), Violation> {
        self.apply(endpoint, id, KeyChange::Set(KeyId(key), self.plan.keys.secret(key)), Ok(()))?;
        self.deleted.remove(&key);
        notes.push((id, Note::Set(key)));
        Ok(())
    }

    /// Asks for what is refused.
    fn misuse(&mut self, endpoint: &mut Endpoint, id: AssociationId) -> Result<(), Violation> {
        let (active, nobodys) = (KeyId(self.active), KeyId(self.plan.keys.last + 1));
        let (change, why) = match self.random.below(4) {
            0 => (KeyChange::Deactivate(active), KeyError::InUse(active)),
            1 => (KeyChange::Delete(active), KeyError::InUse(active)),
            2 => (KeyChange::Activate(nobodys), KeyError::UnknownKey(nobodys)),
            _ => (KeyChange::Delete(nobodys), KeyError::UnknownKey(nobodys)),
        };
        self.apply(endpoint, id, change, Err(why)).map(drop)
    }

    /// Changes a key. Returns false if the association has none.
    fn apply(
        &self,
        endpoint: &mut Endpoint,
        id: AssociationId,
        change: KeyChange,
        expected: Result<(), KeyError>,
    ) -> Result<bool, Violation> {
        let got = change.clone().apply(endpoint, id);
        // A peer without authentication leaves the association without keys.
        if got == Err(KeyError::NotSupported) {
            return Ok(false);
        }
        demand(got == expected, || format!("{id:?}: {change:?}: {got:?}, expected {expected:?}; {self:?}"))?;
        Ok(true)
    }

    /// Learns which key the peer uses. `honest`: nobody forges packets of the peer.
    pub(crate) fn on_event(
        &mut self,
        id: AssociationId,
        event: AuthenticationEvent,
        honest: bool,
    ) -> Result<(), Violation> {
        match event {
            AuthenticationEvent::NewKey(KeyId(key)) => self.peers = key,
            AuthenticationEvent::FreeKey(KeyId(key)) => {
                demand(key != self.active, || format!("{id:?}: the active key {key} is reported as free"))?;
            }
            // Packets from before the peer's change may be late. Which keys there are, both sides know.
            AuthenticationEvent::UnknownKey(KeyId(key)) if honest => {
                demand(self.deleted.contains(&key), || {
                    format!("{id:?}: key {key} of an honest peer is said to be unknown: {self:?}")
                })?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Handles a restart of the peer: it begins with all keys, and with the first one.
    pub(crate) fn on_restarted(
        &mut self,
        endpoint: &mut Endpoint,
        id: AssociationId,
        notes: &mut Vec<(AssociationId, Note)>,
    ) -> Result<(), Violation> {
        self.peers = self.plan.keys.first;
        for key in core::mem::take(&mut self.deleted) {
            self.set(endpoint, id, key, notes)?;
        }
        Ok(())
    }
}

/// The keys of an association as far as the checkers know.
#[derive(Debug, Default)]
pub(crate) struct KnownKeys {
    /// The active key, when it became that, and the one before, if that is known.
    active: Option<(u16, Time, Option<u16>)>,
    deleted: BTreeSet<u16>,
}

impl KnownKeys {
    /// Learns what an application has done.
    pub(crate) fn learn(&mut self, now: Time, note: Note) {
        match note {
            Note::Active(key) => {
                self.active = Some((key, now, self.active.map(|(before, ..)| before)));
            }
            Note::Deleted(key) => _ = self.deleted.insert(key),
            Note::Set(key) => _ = self.deleted.remove(&key),
            Note::Reset(_) => {}
        }
    }

    /// True if the association has the key, as far as is known.
    pub(crate) fn has(&self, key: u16) -> bool {
        !self.deleted.contains(&key)
    }

    /// Checks the key of a packet that departs. One that was queued before has the earlier key.
    pub(crate) fn check(&self, now: Time, key: u16) -> Result<(), Violation> {
        match self.active {
            Some((active, since, before))
                if active != key && (since != now || before.is_some_and(|before| before != key)) =>
            {
                violation(format!("a packet is authenticated with key {key}, but {active} is active"))
            }
            _ => Ok(()),
        }
    }
}
