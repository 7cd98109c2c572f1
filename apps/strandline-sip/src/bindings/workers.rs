//! One store for several workers of a server, or for one: what a user has in the one form and in the other.

use super::binding::Binding;
use super::journal::lines;
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
/// contact the later one, and none that another worker has removed. Also returns how many lines can't be
/// read.
#[must_use]
pub fn unite(states: &[(&str, &[u8])]) -> (Vec<u8>, usize) {
    let mut nodes = Nodes::new("", Box::new(NoNames));
    let (mut bindings, mut unreadable) = (Vec::new(), 0);
    for (name, state) in states {
        let node = nodes.number(name);
        let state = nodes.read(node, state);
        unreadable += state.unreadable;
        // Nothing is to be written down by that.
        let _ = nodes.merge(node, b"", state, &mut bindings);
    }
    let mut out = Vec::new();
    bindings.iter().for_each(|binding| binding.write(&mut out));
    (out, unreadable)
}

/// What a user has, as one server without workers wrote it, for one of several workers: each binding has a stamp, which is lower than
/// all that are given from now on. Also returns how many lines can't be read.
#[must_use]
pub fn stamped(state: &[u8]) -> (Vec<u8>, usize) {
    let mut out = Vec::new();
    let (lines, is_whole) = lines(state);
    let (mut stamp, mut unreadable) = (0, usize::from(!is_whole));
    for line in lines {
        match Binding::read(line) {
            Some(binding) => {
                stamp += 1;
                Binding { stamp, ..binding }.write_stamped(&mut out);
            }
            None => unreadable += 1,
        }
    }
    (out, unreadable)
}

#[cfg(test)]
mod tests;
