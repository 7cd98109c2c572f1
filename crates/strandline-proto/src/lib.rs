//! The SCTP engine of RFC 9260 as a state machine: no I/O, no clock, no threads, no randomness of its own.
//!
//! [`Endpoint`] is the state machine of all associations of one endpoint, and its documentation is
//! the contract. The caller passes datagrams, ICMP messages, the time and commands, and takes events and packets. The
//! crate `strandline` does that on sockets with tokio.
//!
//! | module | content |
//! |---|---|
//! | [`endpoint`] | the state machine, and views for rarer operations (`Reconfigure`, `Addresses`, `KeyChange`, ...) |
//! | [`config`] | every parameter and limit, of an endpoint and of an association |
//! | [`event`], [`error`] | what `poll_event` returns, and why commands fail |
//! | [`stats`] | status and counters of associations, paths and endpoints |
//! | [`congestion`] | congestion controllers |
//! | [`reliability`], [`reconfiguration`] | lifetimes of messages (RFC 3758, RFC 7496); requests to reset and add streams (RFC 6525) |
//! | [`authentication`], [`dynamic_addresses`] | chunk authentication (RFC 4895); requests to change addresses (RFC 5061) |
//! | [`memory`] | the limits that several endpoints share |
//! | [`time`], [`number`], [`zone`], [`timer`] | time as input, serial numbers, zones of link-local addresses, the timing wheel |
//!
//! Private modules are the layers below `endpoint`: `association` has one file for each procedure, and combines the
//! outcomes of `path`, `inbound` and `outbound`, which don't know each other.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod association;
pub mod authentication;
pub mod config;
pub mod congestion;
pub(crate) mod diagnostics;
pub mod dynamic_addresses;
pub mod endpoint;
pub mod error;
pub mod event;
pub mod memory;
pub mod reconfiguration;
pub mod reliability;
pub mod stats;
pub mod time;
pub use strandline_wire::number;
pub mod timer;
pub mod zone;

pub use config::{AssociationConfig, EndpointConfig};
pub use endpoint::Endpoint;
pub use event::Event;

pub(crate) mod inbound;
mod outbound;
mod packet_sizes;
mod path;
mod path_index;
mod rate_limit;
mod receive_queue;
mod stream_numbers;
mod windowed_min;
