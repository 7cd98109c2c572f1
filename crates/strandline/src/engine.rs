//! The protocol engine, under the name that the socket layer uses.

pub(crate) use strandline_proto::endpoint::Endpoint as Engine;
