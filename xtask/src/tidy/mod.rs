//! Style as a test: what CONTRIBUTING.md asks for and a machine can see.

mod code;
mod decisions;
mod links;
mod names;
mod prose;
mod sizes;
mod text;

use crate::imports;
use crate::modules::Crate;
use crate::tree::{Tree, Violation};

/// Crates of crates/ that are harnesses for tests: their assertions are what they are for.
const HARNESSES: [&str; 2] = ["crates/strandline-sim", "crates/strandline-fuzzing"];

/// Every check of style on every file.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (name, content) in &tree.files {
        found.extend(text::check(name, content));
        if name.ends_with(".rs") {
            found.extend(code::check(name, content));
            found.extend(prose::check_rust(name, content));
            found.extend(prose::check_comments(name, content));
        }
        if name.ends_with(".md") {
            found.extend(links::check(tree, name, content));
            found.extend(prose::check_markdown(name, content));
        }
    }
    found.extend(names::check(tree));
    found.extend(decisions::check(tree));
    for package in tree.packages() {
        found.extend(check_package(tree, package));
    }
    found
}

/// Returns the root files of a package's tests if its Cargo.toml lists them (`autotests = false`): cargo would
/// pass over any other file without a word.
fn test_roots(tree: &Tree, package: &str) -> Vec<String> {
    let manifest = tree.files.get(&format!("{package}/Cargo.toml")).map_or("", String::as_str);
    if !manifest.lines().any(|line| line == "autotests = false") {
        return Vec::new();
    }
    let tables = manifest.split("[[test]]").skip(1).map(|rest| rest.split("\n[").next().unwrap_or(rest));
    let value = |table: &str, key: &str| {
        let line = table.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.map(|line| line.trim_end_matches('"').to_owned())
    };
    tables
        .filter_map(|table| {
            value(table, "path").or_else(|| value(table, "name").map(|name| format!("tests/{name}.rs")))
        })
        .map(|path| format!("{package}/{path}"))
        .collect()
}

/// Checks that need a package's module tree: circles, panics outside tests, files that nothing includes.
fn check_package(tree: &Tree, package: &str) -> Vec<Violation> {
    let source = format!("{package}/src/");
    let roots = [format!("{source}lib.rs"), format!("{source}main.rs")];
    let programs = format!("{source}bin/");
    let is_root = |name: &str| {
        let program =
            name.strip_prefix(&programs).is_some_and(|rest| !rest.contains('/') && rest.ends_with(".rs"));
        program || roots.iter().any(|root| root == name)
    };
    let mut found = Vec::new();
    let mut reached = Vec::new();
    let mut crates = Vec::new();
    for root in tree.files.keys().filter(|name| is_root(name)) {
        let krate = Crate::load(tree, root);
        found.extend(krate.broken.iter().cloned());
        found.extend(imports::circles(&krate));
        for module in &krate.modules {
            reached.push(module.file.clone());
            let product = package.starts_with("crates/") || package.starts_with("apps/");
            if product && !HARNESSES.contains(&package) && !module.test {
                found.extend(
                    tree.files
                        .get(&module.file)
                        .into_iter()
                        .flat_map(|content| code::check_panics(&module.file, content)),
                );
            }
        }
        crates.push(krate);
    }
    if package.starts_with("crates/") || package.starts_with("apps/") {
        found.extend(sizes::check(tree, package, &crates));
    }
    let tests = format!("{package}/tests/");
    let test_roots = test_roots(tree, package);
    for root in &test_roots {
        reached.extend(Crate::load(tree, root).modules.into_iter().map(|module| module.file));
    }
    let read = |name: &str| name.starts_with(&source) || !test_roots.is_empty() && name.starts_with(&tests);
    for name in tree.files.keys().filter(|name| read(name) && name.ends_with(".rs")) {
        if !reached.contains(name) {
            let message = "no module includes this file: add its `mod` or remove it";
            found.push(Violation::new(name, 1, message));
        }
    }
    found
}

#[cfg(test)]
mod tests;
