//! Any bytes as a trace.

use super::read::Trace;

/// There are no more events than lines.
pub(crate) fn run(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n').count();
    if let Ok(trace) = Trace::parse(bytes) {
        assert!(trace.events.len() <= lines && trace.cut.is_none_or(|cut| cut <= lines));
    }
}
