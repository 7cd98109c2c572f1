//! System calls that the standard library lacks. All `unsafe` code of the crate is in this module.

pub(crate) mod address;
pub(crate) mod control;
pub(crate) mod error_queue;
pub(crate) mod interfaces;
pub(crate) mod message;
pub(crate) mod netlink;
pub(crate) mod option;
pub(crate) mod packet;
pub(crate) mod timer;
