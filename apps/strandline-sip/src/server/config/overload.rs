//! `[overload]`: overload control.

use std::time::Duration;

use serde::Deserialize;

use crate::server::inbox::{Inbox, InboxSettings};
use crate::server::sources::Sources;
use crate::service::Offer;

use super::error::{ConfigErrors, in_range};

/// Default interval for gathering datagrams, in milliseconds. With 4 ms, a city's traffic takes more than a
/// twentieth of a core.
const GATHER_MS: u64 = 6;
/// Largest `wait_ms_max`, in milliseconds: half of T1. With more, clients on UDP retransmit before they are
/// rejected.
const WAIT_MS_LIMIT: u64 = 250;
/// Default for the number of 503 responses per second.
const REFUSALS_PER_SEC: u32 = 50_000;

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    wait_ms_max: Option<u64>,
    queue_bytes_max: Option<usize>,
    refusals_per_sec_max: Option<u32>,
    gather_ms: Option<u64>,
    source_messages_per_sec_max: Option<u32>,
    source_connections_max: Option<u32>,
    pub(super) oc: Oc,
}

/// The overload control algorithms offered to neighbours.
#[derive(Debug, Clone, Copy, Deserialize, Default)]
pub(super) enum Oc {
    #[serde(rename = "none")]
    None,
    #[default]
    #[serde(rename = "loss")]
    Loss,
    #[serde(rename = "loss,rate")]
    LossAndRate,
}

impl Oc {
    pub(super) const fn offer(self) -> Offer {
        match self {
            Self::None => Offer::None,
            Self::Loss => Offer::Loss,
            Self::LossAndRate => Offer::LossAndRate,
        }
    }
}

/// The settings of overload control.
#[derive(Debug, Clone, Copy)]
pub struct Overload {
    pub(in crate::server) settings: InboxSettings,
    /// Maximum number of 503 responses per second.
    pub(in crate::server) refusals_per_sec: u32,
    /// The interval at which datagrams are gathered while that pays; `None` disables gathering.
    pub(in crate::server) gather: Option<Duration>,
    pub(in crate::server) source_messages_per_sec: Option<u32>,
    pub(in crate::server) source_connections: Option<u32>,
}

impl Overload {
    /// Creates the inbox. `key` must be random.
    pub(in crate::server) fn inbox(&self, key: [u8; 16]) -> Inbox {
        Inbox::new(self.settings, self.sources(key), key)
    }

    fn sources(&self, key: [u8; 16]) -> Option<Sources> {
        self.source_messages_per_sec.map(|per_sec| Sources::new(per_sec, key))
    }

    /// Applies the settings to an existing inbox.
    pub(in crate::server) fn configure(&self, inbox: &mut Inbox, key: [u8; 16]) {
        inbox.configure(self.settings, self.sources(key));
    }
}

pub(super) fn check(file: &Table, errors: &mut ConfigErrors) -> Overload {
    let defaults = InboxSettings::default();
    let wait_ms = defaults.wait_max.as_millis() as u64;
    let wait_ms = in_range("overload.wait_ms_max", file.wait_ms_max, wait_ms, 10..=WAIT_MS_LIMIT, errors);
    let bytes = (1 << 20)..=(1 << 36);
    let bytes_max =
        in_range("overload.queue_bytes_max", file.queue_bytes_max, defaults.bytes_max, bytes, errors);
    let gather_ms = in_range("overload.gather_ms", file.gather_ms, GATHER_MS, 0..=20, errors);
    let mut some = |key: &str, value: Option<u32>, most: u32| {
        value.map(|value| in_range(&format!("overload.{key}"), Some(value), most, 1..=most, errors))
    };
    Overload {
        settings: InboxSettings { wait_max: Duration::from_millis(wait_ms), bytes_max },
        refusals_per_sec: file.refusals_per_sec_max.unwrap_or(REFUSALS_PER_SEC),
        gather: Some(Duration::from_millis(gather_ms)).filter(|every| !every.is_zero()),
        source_messages_per_sec: some(
            "source_messages_per_sec_max",
            file.source_messages_per_sec_max,
            1_000_000,
        ),
        source_connections: some("source_connections_max", file.source_connections_max, u32::MAX),
    }
}
