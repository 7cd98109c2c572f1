//! Nodes that share a store: which node created a binding, which of two bindings is later, and which bindings
//! of other nodes were removed here.
//!
//! Each node stores only the bindings created there. The changes of other nodes may arrive in any order
//! across nodes: the later stamp wins, and a removed binding stays removed until it would have expired.

use std::collections::HashMap;

use super::binding::{Binding, number};
use super::journal::lines;
use super::seal::SealFlow;

/// Number of stamps available per millisecond. If more are needed, the stamps run ahead of the clock.
const STAMPS_PER_MS: u64 = 256;

/// A binding that was created at one node, and removed or replaced at another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Removed {
    /// The node that removed it.
    by: u16,
    /// The node that created it.
    node: u16,
    stamp: u64,
    /// The time at which it would have expired, in seconds since 1970-01-01.
    until: u64,
}

impl Removed {
    fn covers(&self, binding: &Binding) -> bool {
        // A node uses each stamp once, so no other contact of the user matches.
        self.node == binding.node() && self.stamp == binding.stamp
    }
}

/// The known nodes, and the state that orders their bindings.
#[derive(Debug)]
pub struct Nodes {
    /// The names of the nodes; the first one is this node.
    names: Vec<Box<str>>,
    stamp: u64,
    removed: HashMap<Box<[u8]>, Vec<Removed>>,
    seal: Box<dyn SealFlow>,
}

/// The state of a user at a node.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) bindings: Vec<Binding>,
    removed: Vec<Removed>,
    /// Number of lines that can't be parsed.
    pub(super) unreadable: usize,
}

/// A binding before a change: its node, its stamp, and its expiry in seconds since 1970-01-01.
pub(super) type Found = (u16, u64, u64);

impl Nodes {
    /// Creates a table that contains only this node.
    #[must_use]
    pub fn new(name: &str, seal: Box<dyn SealFlow>) -> Self {
        Self { names: vec![name.into()], stamp: 0, removed: HashMap::new(), seal }
    }

    /// The number of a node: 0 for this node, and a new number for an unknown one.
    pub fn number(&mut self, name: &str) -> u16 {
        if let Some(at) = self.names.iter().position(|known| **known == *name) {
            return at as u16;
        }
        self.names.push(name.into());
        (self.names.len() - 1) as u16
    }

    fn next_stamp(&mut self, unix_ms: u64) -> u64 {
        self.stamp = (self.stamp + 1).max(unix_ms.saturating_mul(STAMPS_PER_MS));
        self.stamp
    }

    /// Parses the state of a user that a node has stored.
    pub(super) fn read(&mut self, node: u16, state: &[u8]) -> State {
        let mut read = State::default();
        let (lines, is_whole) = lines(state);
        read.unreadable = usize::from(!is_whole);
        for line in lines {
            if let Some(removed) = line.strip_prefix(b"\tremoved\t") {
                match self.read_removed(node, removed) {
                    Some(removed) => read.removed.push(removed),
                    None => read.unreadable += 1,
                }
            } else if let Some(binding) = Binding::read_of(line, node) {
                self.stamp = self.stamp.max(binding.stamp);
                read.bindings.push(binding);
            } else {
                read.unreadable += 1;
            }
        }
        read
    }

    fn read_removed(&mut self, by: u16, line: &[u8]) -> Option<Removed> {
        let mut fields = line.split(|byte| *byte == b'\t');
        let node = self.number(core::str::from_utf8(fields.next()?).ok()?);
        Some(Removed { by, node, stamp: number(fields.next()?)?, until: number(fields.next()?)? })
    }

    /// Writes the bindings of a user created here, and the removals made here.
    pub(super) fn write(&self, aor: &[u8], bindings: &[Binding], out: &mut Vec<u8>) {
        use std::io::Write;
        for binding in bindings.iter().filter(|binding| binding.origin.is_none()) {
            binding.write_for_others(out, &*self.seal);
        }
        for removed in self.removed.get(aor).into_iter().flatten().filter(|removed| removed.by == 0) {
            let name = self.names.get(usize::from(removed.node)).map_or("", |name| name);
            // Writing to a growable buffer does not fail.
            let _ = writeln!(out, "\tremoved\t{name}\t{}\t{}", removed.stamp, removed.until);
        }
    }

    /// The bindings of other nodes, before a change.
    pub(super) fn before_change(bindings: &[Binding]) -> Vec<Found> {
        let others = bindings.iter().filter(|binding| binding.origin.is_some());
        others.map(|binding| (binding.node(), binding.stamp, binding.expires_at)).collect()
    }

    /// Completes a change: assigns stamps to new bindings, and records the removal of other nodes' bindings.
    pub(super) fn after_change(
        &mut self,
        aor: &[u8],
        unix_ms: u64,
        before: Vec<Found>,
        bindings: &mut [Binding],
    ) {
        for binding in bindings.iter_mut().filter(|binding| binding.stamp == 0) {
            binding.stamp = self.next_stamp(unix_ms);
        }
        for (node, stamp, until) in before {
            if !bindings.iter().any(|binding| binding.node() == node && binding.stamp == stamp) {
                let removed = Removed { by: 0, node, stamp, until };
                self.removed.entry(aor.into()).or_default().push(removed);
            }
        }
    }

    /// Merges the state of a user at another node. Returns whether this node's own stored state changes as a
    /// result.
    pub(super) fn merge(&mut self, node: u16, aor: &[u8], state: State, into: &mut Vec<Binding>) -> bool {
        let mut own_gone = self.forget_seen(node, aor, &state.bindings);
        self.note_removed(node, aor, state.removed);
        let removed = self.removed.get(aor).map_or(&[][..], |removed| removed);
        let is_removed = |binding: &Binding| removed.iter().any(|removed| removed.covers(binding));
        into.retain(|binding| {
            let stays = binding.node() != node && !is_removed(binding);
            own_gone |= !stays && binding.node() == 0 && node != 0;
            stays
        });
        for binding in state.bindings {
            if is_removed(&binding) {
                own_gone |= node == 0;
                continue;
            }
            let same =
                |other: &&mut Binding| other.is_for(&binding.instance, binding.reg_id, &binding.contact);
            match into.iter_mut().find(same) {
                None => into.push(binding),
                Some(other) => {
                    let later = self.order(&binding) > self.order(other);
                    own_gone |= if later { other.node() == 0 } else { node == 0 };
                    if later {
                        *other = binding;
                    }
                }
            }
        }
        own_gone
    }

    fn order(&self, binding: &Binding) -> (u64, &str) {
        (binding.stamp, self.names.get(usize::from(binding.node())).map_or("", |name| name))
    }

    fn note_removed(&mut self, by: u16, aor: &[u8], new: Vec<Removed>) {
        if new.is_empty() && !self.removed.contains_key(aor) {
            return;
        }
        let all = self.removed.entry(aor.into()).or_default();
        all.retain(|removed| removed.by != by);
        all.extend(new);
        if all.is_empty() {
            self.removed.remove(aor);
        }
    }

    /// Drops removals made here once the node no longer has the binding; its changes arrive in order. Returns
    /// whether any was dropped.
    fn forget_seen(&mut self, node: u16, aor: &[u8], has: &[Binding]) -> bool {
        let Some(all) = self.removed.get_mut(aor).filter(|_| node != 0) else { return false };
        let before = all.len();
        all.retain(|removed| {
            removed.by != 0 || removed.node != node || has.iter().any(|binding| removed.covers(binding))
        });
        let any = all.len() < before;
        if all.is_empty() {
            self.removed.remove(aor);
        }
        any
    }

    /// Drops the removals made by a node.
    pub(super) fn forget(&mut self, node: u16) {
        self.removed.retain(|_, all| {
            all.retain(|removed| removed.by != node);
            !all.is_empty()
        });
    }

    /// Drops removals of bindings that would have expired by now. Returns the users with removals made here.
    pub(super) fn sweep(&mut self, unix_secs: u64) -> Vec<Box<[u8]>> {
        let mut changed = Vec::new();
        self.removed.retain(|aor, all| {
            let is_over = |removed: &Removed| removed.until <= unix_secs;
            if all.iter().any(|removed| removed.by == 0 && is_over(removed)) {
                changed.push(aor.clone());
            }
            all.retain(|removed| !is_over(removed));
            !all.is_empty()
        });
        changed
    }
}
