//! The paper's figures, stored as data beside those of the other experiments.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

const TEXT: &str = include_str!("../../../../experiments/ono-schulzrinne-2008-sctp/published.toml");

/// The paper's tables 4, 5 and 6, and figure 8.
#[derive(Debug, Deserialize)]
pub(crate) struct Published {
    pub(crate) table4: ByKind<Held>,
    pub(crate) table5: ByKind<Times>,
    pub(crate) table6: Steps,
    pub(crate) figure8: Figure8,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ByKind<T> {
    pub(crate) one_to_one: T,
    pub(crate) one_to_many: T,
    pub(crate) tcp: T,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Held {
    pub(crate) associations: u64,
    pub(crate) memory_kb: f64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Times {
    pub(crate) setup_ms: Option<f64>,
    pub(crate) transaction_ms: Option<f64>,
    pub(crate) total_ms: f64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Figure8 {
    pub(crate) setup_ms: f64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Steps {
    pub(crate) regular: BTreeMap<String, f64>,
    pub(crate) piggyback: BTreeMap<String, f64>,
    pub(crate) tcp: BTreeMap<String, f64>,
}

pub(crate) fn load() -> Result<Published> {
    toml::from_str(TEXT).context("experiments/ono-schulzrinne-2008-sctp/published.toml")
}

#[cfg(test)]
mod tests;
