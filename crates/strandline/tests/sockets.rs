//! Tests of the sockets: one program, so that the crate is linked once.

mod batches;
mod bind;
mod cancel;
mod common;
mod dynamic_streams;
mod encryption;
mod ends;
mod examples;
mod follow_addresses;
mod local_addresses;
mod notifications;
mod one_to_many;
mod one_to_one;
mod partial_reliability;
mod readiness;
mod reconfiguration;
mod restarts;
mod settings;
mod shards;
mod streams;
mod udp;
mod udp_shards;
mod waiting_senders;
