//! Errors with their causes, as text.

use std::error::Error;

/// Returns an error and its causes, from the outermost to the innermost. What an error repeats of its cause
/// is left out.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = cause.source();
    }
    text
}
