//! Header values, each parsed on access.

pub(crate) mod address;
pub(crate) mod auth;
pub(crate) mod cseq;
pub(crate) mod date;
pub(crate) mod event;
pub(crate) mod media;
pub(crate) mod params;
pub(crate) mod token;
pub(crate) mod values;
pub(crate) mod via;
