//! Any text as what the processes of `strandline load phones` are told and tell.

use super::order::{Done, Order, Part};
use crate::fuzzing::line;

pub(in crate::sip) fn run(text: &str) {
    let _ = (line::<Part>(text), line::<Order>(text));
    if let Some(done) = line::<Done>(text) {
        let mut total = Done::default();
        total.merge(&done);
        let _ = (total.rate(), total.times.summary());
    }
}
