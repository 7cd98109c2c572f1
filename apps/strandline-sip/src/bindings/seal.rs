//! What a flow is called at other nodes.

use crate::transaction::Flow;

/// Makes a text of a flow by which another node can ask for it, and which only this one can open.
pub trait SealFlow: core::fmt::Debug {
    /// Appends the text: letters, digits, `-` and `_`.
    fn seal(&self, flow: &Flow, out: &mut Vec<u8>);
}
