//! `strandline sip`: the service on sockets.
//!
//! A shard is one thread that holds everything: sockets, connections, transactions and timers. Nothing is
//! shared, and no task is spawned for a message. Only the store, which waits for disks, has its own thread.

mod access;
mod admin;
mod admin_client;
mod admission;
mod args;
mod arrivals;
mod clock;
mod config;
mod costs;
mod dns;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod hep;
mod hints;
mod hub;
mod inbox;
mod input;
mod intake;
mod live;
mod message_pool;
mod metrics;
mod pages;
mod parts;
mod rejected_requests;
mod rejection_budget;
mod reload;
mod run;
mod seeds;
mod socket;
mod sources;
mod start_check;
mod startup_message;
mod status;
mod steering;
mod storage;
mod store_gate;
mod style;
mod top;
mod transports;
mod urgency;
mod workers;

pub use admin_client::Args as AdminArgs;
pub use args::{Args, Command};
pub use config::{Config, ConfigError};
pub use parts::Args as PartsArgs;
pub use run::run;
pub use style::{SctpCarrier, SctpStyle};
pub use top::Args as TopArgs;
