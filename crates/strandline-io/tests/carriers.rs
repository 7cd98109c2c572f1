//! Tests of the carriers on real sockets: one program, so that the crate is linked once.

mod common;
mod fragments;
mod packet_socket;
mod raw;
mod timer;
mod udp;
mod zones;
