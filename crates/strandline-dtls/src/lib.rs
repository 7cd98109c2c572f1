//! SCTP over DTLS 1.3.
#![allow(dead_code, missing_docs)]
pub mod provider;
