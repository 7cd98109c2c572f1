//! The dependency rules of ARCHITECTURE.md: between crates, from `cargo metadata`; between the modules of a
//! crate that has layers, from its sources.

mod order;
mod pure;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::modules::Crate;
use crate::tree::{Tree, Violation};

/// Which crates of the workspace a crate may depend on. Everything in apps/ but the program that dispatches
/// and the laboratory, which runs the model of a link in real time, may use only `strandline`, and what helps
/// programs; tests and xtask may use all, and nothing may use them.
const CRATES: [(&str, &[&str]); 20] = [
    ("strandline-wire", &[]),
    ("strandline-proto", &["strandline-wire"]),
    ("strandline-netem", &[]),
    ("strandline-sim", &["strandline-wire", "strandline-proto", "strandline-netem"]),
    ("strandline-io", &[]),
    ("strandline-dtls", &["strandline-wire"]),
    ("strandline-tls", &[]),
    ("strandline-udp", &[]),
    ("strandline-output", &[]),
    ("strandline-measure", &[]),
    ("strandline-ops", &["strandline-output", "strandline-tls"]),
    ("strandline-ipc", &[]),
    ("strandline-fuzzing", &[]),
    ("strandline-preload", &[]),
    ("strandline", &["strandline-wire", "strandline-proto", "strandline-io", "strandline-dtls"]),
    (
        "strandline-lab",
        &["strandline", "strandline-output", "strandline-netem", "strandline-sim", "strandline-tls"],
    ),
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
const WITHOUT_RUNTIME: [&str; 6] = [
    "strandline-wire",
    "strandline-proto",
    "strandline-netem",
    "strandline-sim",
    "strandline-io",
    "strandline-dtls",
];
const RUNTIMES: [&str; 3] = ["tokio", "async-std", "smol"];

pub(crate) fn check(root: &Path, tree: &Tree) -> Result<Vec<Violation>> {
    let metadata = metadata(root)?;
    let mut found = check_crates(&metadata);
    found.extend(check_list(&metadata));
    for rules in &order::CRATES {
        let krate = Crate::load(tree, rules.root);
        found.extend(order::check(&krate, rules));
        found.extend(order::check_list(&krate, rules));
    }
    for rules in &pure::CRATES {
        found.extend(pure::check(tree, rules));
    }
    Ok(found)
}

/// What is read of the output of `cargo metadata`.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Debug, Clone, Deserialize)]
struct Package {
    id: String,
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Clone, Deserialize)]
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

/// Crates in the tables that the workspace does not have.
fn check_list(metadata: &Metadata) -> Vec<Violation> {
    let members = metadata.packages.iter().filter(|package| metadata.workspace_members.contains(&package.id));
    let names: BTreeSet<&str> = members.map(|package| package.name.as_str()).collect();
    let rows = CRATES.iter().flat_map(|(name, allowed)| std::iter::once(name).chain(*allowed));
    let others = APPS_MAY_USE.iter().chain(&WITHOUT_RUNTIME).chain([&DISPATCHER, &TESTS]);
    let listed: BTreeSet<&str> = rows.chain(others).copied().collect();
    let missing = listed.difference(&names);
    missing
        .map(|name| {
            let message = format!("there is no crate {name}: remove it from the tables");
            Violation::new("xtask/src/layers.rs", 1, message)
        })
        .collect()
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
    // Tests of a crate may drive it with the simulated network, and run its fuzz targets; both stay out of
    // what ships.
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

#[cfg(test)]
mod tests;
