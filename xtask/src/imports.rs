//! Imports between the modules of a crate, with re-exports followed to the module that defines the name, and
//! cycles.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::Crate;
use crate::tree::Violation;

/// Maximum number of re-exports followed in a row.
const HOPS_MAX: usize = 16;

/// A use of one module by another.
#[derive(Debug, Clone)]
pub(crate) struct Import {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The path as written.
    pub(crate) path: String,
    pub(crate) file: String,
    pub(crate) line: usize,
}

/// Returns every use of one module by another outside test code.
pub(crate) fn imports(krate: &Crate) -> Vec<Import> {
    let mut found = Vec::new();
    for (from, module) in krate.modules.iter().enumerate().filter(|(_, module)| !module.test) {
        for reference in &module.references {
            let Some(to) = resolve(krate, from, &reference.segments, HOPS_MAX) else { continue };
            if to != from {
                let path = reference.segments.join("::");
                found.push(Import { from, to, path, file: module.file.clone(), line: reference.line });
            }
        }
    }
    found
}

/// Returns the module that defines the type with this path, written in `from`.
pub(crate) fn home_of_type(krate: &Crate, from: usize, segments: &[String]) -> usize {
    resolve(krate, from, segments, HOPS_MAX).unwrap_or(from)
}

/// Returns the module that a path written in `from` leads into; `None` if it leads out of the crate or stays
/// a local name.
fn resolve(krate: &Crate, from: usize, segments: &[String], hops: usize) -> Option<usize> {
    let (first, mut rest) = segments.split_first()?;
    let mut at = match first.as_str() {
        "crate" => 0,
        "self" => from,
        "super" => krate.modules[from].parent?,
        name => step(krate, from, name, hops)?,
    };
    while let [segment, tail @ ..] = rest {
        rest = tail;
        let next = match segment.as_str() {
            "super" => krate.modules[at].parent,
            name => step(krate, at, name, hops),
        };
        match next {
            Some(module) => at = module,
            None => break,
        }
    }
    Some(at)
}

/// Resolves one name from a module: to a child, or along a `use` of that name.
fn step(krate: &Crate, at: usize, name: &str, hops: usize) -> Option<usize> {
    let module = &krate.modules[at];
    if let Some(&child) = module.children.get(name) {
        return Some(child);
    }
    let path = module.uses.get(name)?;
    // `use serde::Serialize` leads out of the crate, and `use foo::{self}` must not be followed to itself.
    if hops == 0 || path.first().is_some_and(|first| first == name && !module.children.contains_key(first)) {
        return None;
    }
    resolve(krate, at, path, hops - 1)
}

/// Lifts an import to the level where the two modules part: returns the siblings that hold them and the
/// module above. Returns `None` if one contains the other.
pub(crate) fn siblings(krate: &Crate, import: &Import) -> Option<(usize, usize, usize)> {
    let (from, to) = (ancestors(krate, import.from), ancestors(krate, import.to));
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    Some((*from.get(common.checked_sub(1)?)?, *from.get(common)?, *to.get(common)?))
}

/// Returns the modules from the root down to the module itself.
fn ancestors(krate: &Crate, module: usize) -> Vec<usize> {
    let mut chain = vec![module];
    while let Some(parent) = chain.last().and_then(|&last| krate.modules[last].parent) {
        chain.push(parent);
    }
    chain.reverse();
    chain
}

/// Returns the cycles between sibling modules, at every level of the tree.
pub(crate) fn circles(krate: &Crate) -> Vec<Violation> {
    let mut levels: BTreeMap<usize, BTreeMap<(usize, usize), Import>> = BTreeMap::new();
    for import in imports(krate) {
        if let Some((above, from, to)) = siblings(krate, &import) {
            levels.entry(above).or_default().entry((from, to)).or_insert(import);
        }
    }
    levels.values().flat_map(|edges| circles_of_level(krate, edges)).collect()
}

fn circles_of_level(krate: &Crate, edges: &BTreeMap<(usize, usize), Import>) -> Vec<Violation> {
    let mut reported: BTreeSet<usize> = BTreeSet::new();
    let mut found = Vec::new();
    for &(start, next) in edges.keys() {
        if reported.contains(&start) {
            continue;
        }
        let Some(back) = shortest_way(edges, next, start) else { continue };
        let circle: Vec<usize> = std::iter::once(start).chain(back).collect();
        reported.extend(&circle);
        let steps = circle.windows(2).filter_map(|pair| edges.get(&(pair[0], pair[1])));
        let told: Vec<String> = steps
            .map(|step| format!("{} uses {} ({}:{})", krate.name(step.from), step.path, step.file, step.line))
            .collect();
        let place = &edges[&(start, next)];
        let message =
            format!("circle between modules: {}: move what both need to a module below", told.join(", "));
        found.push(Violation::new(&place.file, place.line, message));
    }
    found
}

/// Returns the modules on the shortest path from `start` to `goal`, both included.
fn shortest_way(edges: &BTreeMap<(usize, usize), Import>, start: usize, goal: usize) -> Option<Vec<usize>> {
    let mut came_from: BTreeMap<usize, usize> = BTreeMap::new();
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        if at == goal {
            let mut way = vec![goal];
            while let Some(&before) = way.last().and_then(|last| came_from.get(last)) {
                way.push(before);
            }
            way.reverse();
            return Some(way);
        }
        for &(_, next) in edges.keys().filter(|(from, _)| *from == at) {
            if next != start && !came_from.contains_key(&next) {
                came_from.insert(next, at);
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
