//! Modules without I/O: they use no runtime, socket, file, thread or clock.
//!
//! These are the modules that ARCHITECTURE.md lists as free of I/O, every module whose documentation says "No
//! I/O", and the modules within them.

use crate::modules::{Crate, Module};
use crate::tree::{Tree, Violation};

use super::RUNTIMES;

/// A crate with modules that ARCHITECTURE.md lists as free of I/O.
pub(super) struct Pure {
    /// Its lib.rs, from the workspace's root.
    pub(super) root: &'static str,
    pub(super) modules: &'static [&'static str],
    /// Paths that do no I/O although others of their crate do.
    allowed: &'static [&'static [&'static str]],
}

impl Pure {
    #[cfg(test)]
    pub(super) const fn of(root: &'static str, modules: &'static [&'static str]) -> Self {
        Self { root, modules, allowed: &[] }
    }
}

/// Crates with modules that are free of I/O.
pub(super) const CRATES: [Pure; 3] = [
    Pure {
        root: "apps/strandline-sip/src/lib.rs",
        modules: &["codec", "transaction", "auth", "bindings", "resolution", "registrar", "service"],
        allowed: &[],
    },
    Pure {
        root: "apps/strandline-http/src/lib.rs",
        modules: &["control", "streams::table"],
        allowed: &[&["strandline", "Ended"]],
    },
    // The load generators pass the time as an `Instant`; clippy rejects `Instant::now`.
    Pure { root: "apps/strandline-load/src/lib.rs", modules: &[], allowed: &[&["std", "time", "Instant"]] },
];

/// The words by which a module's documentation says that it is free of I/O.
const DECLARATION: &str = "No I/O";

/// Paths into the standard library that do I/O or read a clock.
const FORBIDDEN: [&[&str]; 13] = [
    &["std", "fs"],
    &["std", "thread"],
    &["std", "process"],
    &["std", "env"],
    &["std", "os"],
    &["std", "io", "stdin"],
    &["std", "io", "stdout"],
    &["std", "io", "stderr"],
    &["std", "net", "TcpListener"],
    &["std", "net", "TcpStream"],
    &["std", "net", "UdpSocket"],
    &["std", "time", "Instant"],
    &["std", "time", "SystemTime"],
];

/// Crates of the workspace and others that do I/O.
const CRATES_WITH_IO: [&str; 7] =
    ["mio", "socket2", "strandline", "strandline_io", "strandline_ops", "strandline_tls", "strandline_udp"];

pub(super) fn check(tree: &Tree, rules: &Pure) -> Vec<Violation> {
    let krate = Crate::load(tree, rules.root);
    let mut found = Vec::new();
    for listed in rules.modules {
        if krate.find(listed).is_none() {
            let message = format!("there is no module `{listed}`: remove it from xtask/src/layers/pure.rs");
            found.push(Violation::new(rules.root, 1, message));
        }
    }
    for (number, module) in krate.modules.iter().enumerate().filter(|(_, module)| !module.test) {
        let Some(pure) = pure_ancestor(tree, &krate, rules, number) else { continue };
        for reference in &module.references {
            let path = written_out(module, &reference.segments);
            if does_io(&path) && !rules.allowed.iter().any(|allowed| begins_with(&path, allowed)) {
                let (name, path) = (krate.name(number), path.join("::"));
                let message = format!("`{name}` uses {path}: `{pure}` does no I/O and reads no clock");
                found.push(Violation::new(&module.file, reference.line, message));
            }
        }
    }
    found
}

/// The name of the module itself or of one above it that is free of I/O.
fn pure_ancestor(tree: &Tree, krate: &Crate, rules: &Pure, module: usize) -> Option<String> {
    let parents = |at: &usize| krate.modules[*at].parent;
    let ways = std::iter::successors(Some(module), parents).filter(|at| *at != 0);
    ways.map(|at| (krate.name(at), &krate.modules[at])).find_map(|(name, module)| {
        let is_pure = rules.modules.contains(&name.as_str()) || declares_itself(tree, module);
        is_pure.then_some(name)
    })
}

/// Whether the documentation at the front of a module's file says that it is free of I/O.
fn declares_itself(tree: &Tree, module: &Module) -> bool {
    let content = tree.files.get(&module.file).map_or("", String::as_str);
    let docs: Vec<&str> = content.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim).collect();
    docs.join(" ").contains(DECLARATION)
}

/// A path with its first name replaced by what a `use` of the module has bound to it: `time::Instant` after
/// `use std::time`.
fn written_out(module: &Module, segments: &[String]) -> Vec<String> {
    let Some((first, rest)) = segments.split_first() else { return Vec::new() };
    match module.uses.get(first).filter(|path| path.first() != Some(first)) {
        Some(path) => path.iter().chain(rest).cloned().collect(),
        None => segments.to_vec(),
    }
}

fn does_io(path: &[String]) -> bool {
    let first = path.first().map_or("", String::as_str);
    RUNTIMES.contains(&first)
        || CRATES_WITH_IO.contains(&first)
        || FORBIDDEN.iter().any(|forbidden| begins_with(path, forbidden))
}

fn begins_with(path: &[String], first: &[&str]) -> bool {
    path.len() >= first.len() && path.iter().zip(first).all(|(a, b)| a == b)
}
