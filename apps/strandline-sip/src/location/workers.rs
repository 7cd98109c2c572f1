//! One store for several workers of a server, or for one: what a user has in the one form and in the other.

use super::binding::Binding;
use super::nodes::Nodes;
use super::seal::SealFlow;
use crate::transaction::Flow;

/// Nobody reads the names of flows here.
#[derive(Debug)]
struct NoNames;

impl SealFlow for NoNames {
    fn seal(&self, _: &Flow, _: &mut Vec<u8>) {}
}

/// What a user has at several workers, each with its name, as one server without workers writes it: of two bindings for the same
/// contact the later one, and none that another worker has removed.
#[must_use]
pub fn unite(states: &[(&str, &[u8])]) -> Vec<u8> {
    let mut nodes = Nodes::new("", Box::new(NoNames));
    let mut bindings = Vec::new();
    for (name, state) in states {
        let node = nodes.number(name);
        let state = nodes.read(node, state);
        // Nothing is to be written down by that.
        let _ = nodes.merge(node, b"", state, &mut bindings);
    }
    let mut out = Vec::new();
    bindings.iter().for_each(|binding| binding.write(&mut out));
    out
}

/// What a user has, as one server without workers wrote it, for one of several workers: each binding has a stamp, which is lower than
/// all that are given from now on.
#[must_use]
pub fn stamped(state: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let lines = state.split(|byte| *byte == b'\n').filter_map(Binding::read);
    for (number, binding) in lines.enumerate() {
        Binding { stamp: number as u64 + 1, ..binding }.write_stamped(&mut out);
    }
    out
}

#[cfg(test)]
mod tests;
