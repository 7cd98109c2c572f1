//! Custom scenarios: the messages that a phone and its callee send and expect, step by step. No I/O, no
//! clock.

mod format;
mod party;
mod play;
mod template;

pub(super) use format::Script;
pub(super) use play::{Around, Beginning, Players};
