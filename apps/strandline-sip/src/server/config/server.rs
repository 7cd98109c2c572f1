//! `[server]`: the number of processes.

use serde::Deserialize;

use crate::store::worker_name;
use crate::transaction::WORKERS_MAX;

use super::error::{ConfigError, ConfigErrors, wrong};
use super::{Config, Store};

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    processes: Option<Given>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "`processes` must be a whole number or \"auto\"")]
enum Given {
    Number(i64),
    Text(String),
}

impl Config {
    /// Adapts the configuration for one of several processes: common limits are divided among them, and the
    /// parent process provides administration.
    pub(in crate::server) fn share(&mut self, worker: u8, count: u8) {
        let of_all = |all: &mut usize| *all = all.div_ceil(usize::from(count.max(1)));
        of_all(&mut self.connections_max);
        of_all(&mut self.settings.limits.servers_max);
        of_all(&mut self.settings.limits.clients_max);
        of_all(&mut self.settings.limits.bytes_max);
        of_all(&mut self.overload.settings.bytes_max);
        of_all(&mut self.connection_limits.buffered_bytes_max);
        (self.metrics, self.admin) = (None, None);
        // Other workers receive the bindings, whether or not these are stored.
        self.settings.durable = true;
        if let Some(Store::Shared(settings)) = &mut self.store {
            settings.node.name = worker_name(&settings.node.server, worker);
        }
    }
}

/// The number of processes.
pub(super) fn check(file: &Table, option: Option<&str>, errors: &mut ConfigErrors) -> u8 {
    let processes = match (option, &file.processes) {
        (Some(text), _) => read("--processes", text),
        (None, Some(Given::Number(number))) => read("server.processes", &number.to_string()),
        (None, Some(Given::Text(text))) => read("server.processes", text),
        (None, None) => Ok(1),
    };
    errors.take_or(processes, 1)
}

fn read(key: &str, text: &str) -> Result<u8, ConfigError> {
    if matches!(text, "auto" | "cores") {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        return Ok(cores.min(usize::from(WORKERS_MAX)) as u8);
    }
    match text.parse() {
        Ok(number) if (1..=WORKERS_MAX).contains(&number) => Ok(number),
        _ => {
            let message = format!(
                "expected a number from 1 to {WORKERS_MAX} or \"auto\" (one for each usable core), not {text:?}"
            );
            Err(wrong(key, message))
        }
    }
}
