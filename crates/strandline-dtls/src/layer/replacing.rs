//! Another configuration while connections exist.

use std::sync::Arc;
use std::time::Instant;

use super::Layer;
use crate::config::{Config, ConfigError};
use crate::connection::Connection;
use crate::header::Cid;
use crate::packets::Packets;
use crate::token::ResetTokens;

impl Layer {
    /// Replaces the configuration except for the limits. The identity is for handshakes to come. Connections
    /// with peers that are not trusted any more end: ABORTs for their associations are appended to `packets`.
    ///
    /// # Errors
    /// If a value of the configuration is out of range: nothing has changed then.
    pub fn replace_config(
        &mut self,
        now: Instant,
        mut config: Config,
        packets: &mut Packets,
    ) -> Result<(), ConfigError> {
        config.limits = self.config.limits.clone();
        (self.own, self.plain) = (config.dtls(false)?, config.dtls(true)?);
        self.resets = ResetTokens::new(&config.identity.private_key);
        self.config = Arc::new(config);
        let all: Vec<Cid> = self.connections.keys().copied().collect();
        for cid in all {
            self.with(now, cid, Connection::check_again);
        }
        self.give_up(packets);
        Ok(())
    }
}
