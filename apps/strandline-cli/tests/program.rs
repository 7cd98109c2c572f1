//! End-to-end tests of the program, in one binary that is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests stop at the first error")]

mod announced;
mod browser;
mod certificates;
mod checked;
mod completions;
mod credentials;
mod databases;
mod echo;
mod engine_log;
mod http;
mod http_encryption;
mod http_get;
mod http_proxy;
#[cfg(feature = "full-interop")]
mod kamailio;
mod lab;
mod lab_report;
mod laboratory;
mod load;
mod looked_after;
mod name_server;
mod netem;
mod netem_network;
mod output;
mod perf;
mod perf_encryption;
mod perf_server;
mod phones;
mod ports;
mod processes;
mod sip;
mod sip_admin;
mod sip_alias;
mod sip_dns;
mod sip_docs;
mod sip_documented;
mod sip_edge;
mod sip_fresh;
mod sip_generator;
mod sip_hep;
mod sip_ipv6;
#[cfg(feature = "full-interop")]
mod sip_kamailio;
mod sip_limits;
mod sip_live;
#[cfg(feature = "full-interop")]
mod sip_lksctp;
mod sip_load;
mod sip_logs;
mod sip_neighbours;
mod sip_nodes;
mod sip_processes;
mod sip_processes_admin;
mod sip_processes_configuration;
mod sip_processes_digest;
mod sip_processes_nodes;
mod sip_processes_transports;
#[cfg(feature = "full-interop")]
mod sip_programs;
mod sip_scenarios;
mod sip_sctp_failures;
mod sip_server;
mod sip_sipp;
mod sip_store_file;
mod sip_stores;
mod sip_subscribers;
#[cfg(feature = "full-interop")]
mod sip_systemd;
mod sip_tls;
mod sip_tls_domains;
mod sip_websocket;
mod sipp;
mod udp_phone;
mod waiting;
mod web_phone;
mod wire;
mod zones;
