//! Scenarios of one's own: what a phone sends and expects, and the one that it asks, step by step. No I/O, no clock.

mod format;
mod party;
mod play;
mod template;

pub(super) use format::Script;
pub(super) use play::{Around, Beginning, Players};
