//! The dependency rules of ARCHITECTURE.md: between crates, from `cargo metadata`; between the modules of a crate that
//! has layers, from its sources.

mod order;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::imports::{imports, siblings};
use crate::modules::Crate;
use crate::tree::{Tree, Violation};

/// Which crates of the workspace a crate may depend on. Everything in apps/ but the program that dispatches and the
/// laboratory, which runs the model of a link in real time, may use only `strandline`, and what helps programs; tests and xtask may use all, and
/// nothing may use them.
const CRATES: [(&str, &[&str]); 20] = [
    ("strandline-wire", &[]),
    ("strandline-proto", &["strandline-wire"]),
    ("strandline-netem", &[]),
    ("strandline-sim", &["strandline-wire", "strandline-proto", "strandline-netem"]),
    ("strandline-io", &[]),
    ("strandline-tls", &[]),
    ("strandline-udp", &[]),
    ("strandline-output", &[]),
    ("strandline-measure", &[]),
    ("strandline-ops", &["strandline-output", "strandline-tls"]),
    ("strandline-ipc", &[]),
    ("strandline-fuzzing", &[]),
    ("strandline", &["strandline-wire", "strandline-proto", "strandline-io"]),
    ("strandline-capi", &["strandline"]),
    ("strandline-preload", &["strandline-capi", "strandline"]),
    ("strandline-lab", &["strandline", "strandline-output", "strandline-netem", "strandline-sim"]),
    (
        "strandline-sip",
        &[
            "strandline",
            "strandline-ipc",
            "strandline-ops",
            "strandline-output",
            "strandline-tls",
            "strandline-udp",
        ],
    ),
    ("xtask", &[]),
    ("strandline-bench", &[]),
    ("strandline-instructions", &["strandline-proto"]),
];
const APPS_MAY_USE: [&str; 7] = [
    "strandline",
    "strandline-ipc",
    "strandline-measure",
    "strandline-ops",
    "strandline-output",
    "strandline-tls",
    "strandline-udp",
];
const DISPATCHER: &str = "strandline-cli";
const TESTS: &str = "strandline-tests";

/// Crates that must not see an async runtime, however indirectly.
const WITHOUT_RUNTIME: [&str; 5] =
    ["strandline-wire", "strandline-proto", "strandline-netem", "strandline-sim", "strandline-io"];
const RUNTIMES: [&str; 3] = ["tokio", "async-std", "smol"];

/// The module of strandline-sip that is below all its others and does no I/O.
const SIP_CODEC: &str = "codec";
const SIP_ROOT: &str = "apps/strandline-sip/src/lib.rs";

pub(crate) fn check(root: &Path, tree: &Tree) -> Result<Vec<Violation>> {
    let mut found = check_crates(&metadata(root)?);
    for rules in &order::CRATES {
        found.extend(order::check(&Crate::load(tree, rules.root), rules));
    }
    found.extend(check_codec(&Crate::load(tree, SIP_ROOT)));
    Ok(found)
}

/// What is read of the output of `cargo metadata`.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Debug, Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

fn metadata(root: &Path) -> Result<Metadata> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root)
        .output()
        .context("cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("the output of cargo metadata")
}

fn check_crates(metadata: &Metadata) -> Vec<Violation> {
    let members: Vec<&Package> =
        metadata.packages.iter().filter(|package| metadata.workspace_members.contains(&package.id)).collect();
    let names: BTreeSet<&str> = members.iter().map(|package| package.name.as_str()).collect();
    let mut found = Vec::new();
    for package in &members {
        let file = shown_manifest(package);
        for dependency in
            package.dependencies.iter().filter(|dependency| names.contains(dependency.name.as_str()))
        {
            if dependency.name != package.name && !may_depend(package, dependency, &members) {
                let allowed = allowed_for(package).join(", ");
                let message = format!(
                    "{} depends on {}: it may use only [{allowed}] of the workspace",
                    package.name, dependency.name
                );
                found.push(Violation::new(&file, 1, message));
            }
        }
        let way = way_to_runtime(metadata, &package.id);
        if let Some(way) = way.filter(|_| WITHOUT_RUNTIME.contains(&package.name.as_str())) {
            let message =
                format!("an async runtime is reached ({way}): keep it in the crate strandline and above");
            found.push(Violation::new(&file, 1, message));
        }
    }
    found
}

fn is_app(package: &Package) -> bool {
    package.manifest_path.contains("/apps/")
}

fn allowed_for(package: &Package) -> Vec<&'static str> {
    let row = CRATES.iter().find(|(name, _)| *name == package.name);
    match row {
        Some((_, allowed)) => allowed.to_vec(),
        None if package.name == TESTS => vec!["all"],
        None if package.name == DISPATCHER => {
            vec!["strandline", "strandline-ops", "strandline-output", "strandline-tls", "every app"]
        }
        None if is_app(package) => APPS_MAY_USE.to_vec(),
        // A new crate has to be given its place in the table.
        None => Vec::new(),
    }
}

fn may_depend(package: &Package, dependency: &Dependency, members: &[&Package]) -> bool {
    let to = dependency.name.as_str();
    if to == TESTS || to == "xtask" {
        return false;
    }
    if package.name == TESTS || allowed_for(package).contains(&to) {
        return true;
    }
    // Tests of a crate may drive it with the simulated network, and run its fuzz targets; both stay out of what ships.
    let for_tests =
        dependency.kind.as_deref() == Some("dev") && matches!(to, "strandline-netem" | "strandline-fuzzing");
    let dispatched =
        package.name == DISPATCHER && members.iter().any(|member| member.name == to && is_app(member));
    for_tests || dispatched
}

/// The path of a package's manifest from the workspace's root, for messages.
fn shown_manifest(package: &Package) -> String {
    let parts: Vec<&str> = package.manifest_path.rsplit('/').take(3).collect();
    let shown: Vec<&str> = parts.into_iter().rev().collect();
    match shown.first() {
        Some(&("crates" | "apps")) => shown.join("/"),
        _ => shown[shown.len().saturating_sub(2)..].join("/"),
    }
}

/// How a package reaches a runtime through normal and build dependencies, if it does.
fn way_to_runtime(metadata: &Metadata, start: &str) -> Option<String> {
    let nodes: BTreeMap<&str, &Node> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let names: BTreeMap<&str, &str> =
        metadata.packages.iter().map(|package| (package.id.as_str(), package.name.as_str())).collect();
    let mut seen = BTreeSet::from([start]);
    let mut ways = vec![vec![start]];
    while let Some(way) = ways.pop() {
        let last = *way.last()?;
        if names.get(last).is_some_and(|name| RUNTIMES.contains(name)) {
            let told: Vec<&str> = way.iter().filter_map(|id| names.get(id).copied()).collect();
            return Some(told.join(" -> "));
        }
        for edge in nodes.get(last).map(|node| node.deps.as_slice()).unwrap_or_default() {
            let ships = edge.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev"));
            if ships && seen.insert(&edge.pkg) {
                let mut longer = way.clone();
                longer.push(&edge.pkg);
                ways.push(longer);
            }
        }
    }
    None
}

/// The codec imports no other module of its crate, and no runtime.
fn check_codec(krate: &Crate) -> Vec<Violation> {
    let mut found = krate.broken.clone();
    for import in imports(krate) {
        let Some((0, from, to)) = siblings(krate, &import) else { continue };
        if krate.name(from) == SIP_CODEC {
            let message = format!("`{SIP_CODEC}` imports `{}`: it is below all others", krate.name(to));
            found.push(Violation::new(&import.file, import.line, message));
        }
    }
    let below = format!("{SIP_CODEC}::");
    for (number, module) in krate.modules.iter().enumerate().filter(|(_, module)| !module.test) {
        let name = krate.name(number);
        if name != SIP_CODEC && !name.starts_with(&below) {
            continue;
        }
        let runtime = |first: &String| RUNTIMES.contains(&first.as_str());
        for reference in module.references.iter().filter(|path| path.segments.first().is_some_and(runtime)) {
            let message = format!("`{name}` uses {}: the codec does no I/O", reference.segments.join("::"));
            found.push(Violation::new(&module.file, reference.line, message));
        }
    }
    found
}

#[cfg(test)]
mod tests;
