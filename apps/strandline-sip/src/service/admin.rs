//! What those who look after the service change while it runs.

use crate::auth::Authenticator;
use crate::bindings::Binding;
use crate::codec::Index;
use crate::registrar::Registrar;
use crate::transaction::Time;

use super::Service;
use super::directory::Directory;
use super::offers::Offers;
use super::settings::Settings;

impl Service {
    /// From now on users have to prove who they are; nobody has to without an authenticator. Who has a nonce of the last one
    /// gets a new one.
    pub fn authenticate(&mut self, authenticator: Option<Authenticator>) {
        let last = self.authenticator.take();
        self.authenticator = authenticator.map(|authenticator| authenticator.inherit(last));
    }

    /// From now on it does as these say. Its addresses, timers, limits of users and transactions, and whether bindings are
    /// written down, stay as they are.
    pub fn configure(&mut self, new: &Settings) {
        let Settings { advertised, users_max, timings, limits, durable, directory, .. } = &self.settings;
        let directory = Directory { failover: directory.failover, ..new.directory.clone() };
        let settings = Settings {
            advertised: advertised.clone(),
            users_max: *users_max,
            timings: *timings,
            limits: *limits,
            durable: *durable,
            directory,
            ..new.clone()
        };
        self.registrar = Registrar::new(settings.registrar);
        self.offers = Offers::new(&settings.directory, &self.tokens);
        self.index = Some(Box::new(Index::with_limits(settings.message)));
        self.settings = settings;
    }

    /// Takes away the bindings of a user, or that for one contact, and returns them; those of other nodes too, which hear of it
    /// as of any change.
    pub fn unbind(&mut self, now: Time, aor: &[u8], contact: Option<&[u8]>) -> Vec<Binding> {
        let is_meant = |binding: &Binding| contact.is_none_or(|contact| *binding.contact == *contact);
        if !self.locations.bindings(aor).iter().any(is_meant) {
            return Vec::new();
        }
        // What is removed is remembered with the moment, so that nothing older brings it back.
        self.locations.set_now(self.unix_ms(now));
        let change = |bindings: &mut Vec<Binding>| bindings.extract_if(.., |one| is_meant(one)).collect();
        self.locations.change(aor, &mut self.journal, change).unwrap_or_default()
    }

    /// While it drains, registrations and what begins a dialog are refused with 503; what has begun goes on.
    pub fn set_draining(&mut self, draining: bool) {
        self.draining = draining;
    }

    /// Was this binding made at this server, if it has several workers at any of them?
    #[must_use]
    pub fn is_here(&self, binding: &Binding) -> bool {
        binding.origin.is_none() || self.is_siblings(binding)
    }

    /// Does this connection or association stand?
    #[must_use]
    pub fn stands(&self, connection: u64) -> bool {
        self.stands_anywhere(connection)
    }
}
