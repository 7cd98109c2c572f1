//! The operational side of a server, independent of its protocol: HTTP for metrics, live page and
//! administration ([`http`]), metrics for Prometheus ([`metrics`]), the files of a configuration ([`Files`]),
//! and the results of checks and reloads ([`Flaw`], [`Reload`]).

mod config;
mod config_error;
mod config_errors;
mod files;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "mimalloc")]
pub mod heap;
pub mod http;
mod malformed;
pub mod metrics;
mod process;
mod sockets;
mod source;
mod start_check;
mod tcp;
mod window;

pub use config::{Document, Flaw, Reload, Reloads, report};
pub use config_error::{ConfigError, line_of};
pub use config_errors::{ConfigErrors, parse_document};
pub use files::{Files, Unreadable};
pub use malformed::Malformed;
pub use process::raise_open_files;
pub use sockets::{bind_hint, bind_udp, listen_tcp, not_listening, socket_for};
pub use source::Network;
pub use start_check::{StartAddress, not_opened, overlap};
pub use tcp::{TcpFigures, is_silent_since, tcp_figures};
pub use window::{narrow_window, open_window};
