//! Tokens for flows, for use by other nodes.

use crate::transaction::Flow;

/// Makes a token for a flow. Another node can quote the token, but only this node can resolve it.
pub trait SealFlow: core::fmt::Debug {
    /// Appends the token, which consists of letters, digits, `-` and `_`.
    fn seal(&self, flow: &Flow, out: &mut Vec<u8>);
}
