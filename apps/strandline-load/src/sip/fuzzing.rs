//! Any bytes as a scenario, and as what the processes of a load are told.

use super::phones::fuzzing as phones;
use super::processes::Order;
use super::script::Script;
use crate::fuzzing::line;

/// A scenario: what is taken can be described, and what isn't has a reason.
pub fn scenario(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    if let Err(error) = Script::read(text) {
        assert!(!format!("{error:#}").is_empty());
    }
}

pub(crate) fn control(text: &str) {
    let _ = line::<Order>(text);
    phones::run(text);
}
