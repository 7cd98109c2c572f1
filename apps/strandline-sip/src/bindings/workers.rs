//! Converts the stored state of a user between a server with workers and one without.

use super::binding::Binding;
use super::journal::lines;
use super::nodes::Nodes;
use super::seal::SealFlow;
use crate::transaction::Flow;

/// A placeholder for flow names, which are not needed here.
#[derive(Debug)]
struct NoNames;

impl SealFlow for NoNames {
    fn seal(&self, _: &Flow, _: &mut Vec<u8>) {}
}

/// Merges the states of a user at several workers, each given with its name, into the form of a server
/// without workers. Of two bindings for one contact the later one is kept, and those removed by another
/// worker are left out. Also returns the number of unreadable lines.
#[must_use]
pub fn unite(states: &[(&str, &[u8])]) -> (Vec<u8>, usize) {
    let mut nodes = Nodes::new("", Box::new(NoNames));
    let (mut bindings, mut unreadable) = (Vec::new(), 0);
    for (name, state) in states {
        let node = nodes.number(name);
        let state = nodes.read(node, state);
        unreadable += state.unreadable;
        // The result matters only to a server that stores its own part.
        let _ = nodes.merge(node, b"", state, &mut bindings);
    }
    let mut out = Vec::new();
    bindings.iter().for_each(|binding| binding.write(&mut out));
    (out, unreadable)
}

/// Converts the state of a user from a server without workers for use by one of several. Each binding gets a
/// stamp that is lower than all new ones. Also returns the number of unreadable lines.
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
