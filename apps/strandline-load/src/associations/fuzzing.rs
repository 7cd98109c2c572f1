//! Any text as what the processes of `strandline load associations` are told and tell.

use super::order::{Answer, Order, Part};
use crate::fuzzing::line;

pub(crate) fn run(text: &str) {
    let _ = (line::<Part>(text), line::<Order>(text), line::<Answer>(text));
}
