//! `strandline load sip`: user agents that register and call, and the measurement of the server's answers.

mod answer;
mod args;
mod carrier;
mod digest;
mod encryption;
mod engine;
mod format;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod keep_alive;
mod load;
mod local_server;
mod orders;
mod out;
mod outcome;
pub mod phones;
mod plan;
mod processes;
mod run;
mod script;
mod session;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first error")]
mod test_support;
mod text;
mod watch;

pub(crate) use answer::{Answer, whole_message};
pub use args::Args;
pub(crate) use processes::run_part;
pub use run::run;
