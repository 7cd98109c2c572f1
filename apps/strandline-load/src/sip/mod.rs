//! `strandline load sip`: user agents that register and call, and how the server takes it.

mod answer;
mod args;
mod carrier;
mod digest;
mod engine;
mod load;
mod outcome;
mod own;
pub mod phones;
mod put;
mod run;
mod text;
mod watch;

pub(crate) use answer::{Answer, whole_message};
pub use args::Args;
pub use run::run;
