//! `strandline gateway`: TCP connections of unmodified programs on the streams of one SCTP association.
//!
//! A gateway on each side: the near one accepts TCP connections, opens a stream for each, and says in its
//! first message where it leads; the far one connects onward. The association lasts, so that a new connection
//! begins with the window that others have opened, and needs no round trip of its own. docs/gateway.md is for
//! operators.
//!
//! Modules from the bottom: `protocol`, `rules`, `socks`, `connect_request`, `preload_request` and
//! `proxy_protocol` parse and decide, without I/O; so does `mapping`, by what `health`, `loss_meter` and
//! `direct` know; `config` checks; `registry` and `limits` count; `relay` moves data; `dial`, `far` and
//! `link` are the sides of an association; `listeners` are the listeners; `run` puts it together. `program`
//! is `strandline run`.
//!
//! # The end of a connection
//!
//! | event | what the other side's application sees |
//! |---|---|
//! | an end of data | the end, after all data before it; the other direction goes on |
//! | a reset | a reset |
//! | no connection onward | SOCKS's or HTTP's error, or a reset where there is no word for it |
//! | the association ends, a gateway ends or is killed | a reset, never an end |
#![forbid(unsafe_code)]

mod accept_queue;
mod access_log;
mod admin;
mod admin_token;
mod capture;
mod captures;
mod client_shares;
mod client_socket;
mod clock;
pub mod command;
mod config;
mod connect_request;
mod contexts;
mod desired_listeners;
mod dial;
mod direct;
mod fair_sharing;
mod far;
mod far_peer;
mod far_udp;
mod first_message;
mod flow_limit;
mod flows;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod gateway;
mod handover;
mod health;
mod hot_restart;
mod init;
mod interception;
mod limits;
mod link;
mod link_users;
mod listeners;
mod local_addresses;
mod lookups;
mod loss_meter;
mod mapping;
mod pace;
mod peer_identity;
mod peer_listeners;
mod peer_rate;
mod peer_requests;
mod preload_request;
mod program;
mod program_sockets;
mod protocol;
mod proxy_protocol;
mod questions;
mod recent;
mod refused_lines;
mod registry;
mod relay;
mod reverse_states;
mod rules;
mod ruleset;
mod run;
mod running;
mod shards;
mod signals;
mod socks;
mod stacks;
mod start_check;
mod status;
mod udp_clients;
