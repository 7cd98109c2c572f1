use super::*;

fn modules(files: &[(&str, &str)]) -> Vec<String> {
    let mut tree = Tree::of(files);
    let names: Vec<&str> = files.iter().map(|(name, _)| name.trim_end_matches(".rs")).collect();
    let root = names.iter().map(|name| format!("mod {name};\n")).collect();
    for (name, text) in files {
        tree.files.insert(format!("crates/strandline-proto/src/{name}"), (*text).to_owned());
    }
    let rules = &order::PROTO;
    tree.files.insert(rules.root.to_owned(), root);
    order::check(&Crate::load(&tree, rules.root), rules).iter().map(ToString::to_string).collect()
}

#[test]
fn downwards_is_allowed() {
    let found = modules(&[
        ("time.rs", ""),
        ("config.rs", "use crate::time::Time;\n"),
        ("congestion.rs", "use crate::time::Time;\n"),
        ("path.rs", "use crate::{congestion::C, config::A};\n"),
        ("association.rs", "use crate::path::Path;\n"),
        ("endpoint.rs", "use crate::association::A;\nuse crate::event::E;\n"),
    ]);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn upwards_and_sideways_is_told_with_its_line() {
    let found = modules(&[
        ("congestion.rs", "\nuse crate::path::Path;\n"),
        ("path.rs", "use crate::association::A;\n"),
        ("inbound.rs", "fn f(o: &crate::outbound::O) {}\n"),
        ("outbound.rs", ""),
        ("association.rs", "use crate::endpoint::E;\n"),
        ("endpoint.rs", ""),
    ]);
    let expected = [
        ("congestion.rs:2:", "higher layer"),
        ("path.rs:1:", "higher layer"),
        ("inbound.rs:1:", "its own layer"),
        ("association.rs:1:", "higher layer"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (place, message) in expected {
        assert!(
            found.iter().any(|line| line.contains(place) && line.contains(message)),
            "{place} in {found:?}"
        );
    }
}

#[test]
fn a_module_of_no_layer_is_told() {
    let found = modules(&[("misc.rs", "")]);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("module `misc` has no layer"), "{found:?}");
}

fn package(name: &str, folder: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
    Package {
        id: name.to_owned(),
        name: name.to_owned(),
        manifest_path: format!("/somewhere/{folder}/{name}/Cargo.toml"),
        dependencies: dependencies
            .iter()
            .map(|(name, kind)| Dependency { name: (*name).to_owned(), kind: kind.map(str::to_owned) })
            .collect(),
    }
}

fn crates(packages: Vec<Package>) -> Vec<String> {
    let node = |package: &Package| Node {
        id: package.id.clone(),
        deps: package
            .dependencies
            .iter()
            .map(|to| Edge { pkg: to.name.clone(), dep_kinds: vec![EdgeKind { kind: to.kind.clone() }] })
            .collect(),
    };
    let metadata = Metadata {
        resolve: Resolve { nodes: packages.iter().map(node).collect() },
        workspace_members: packages
            .iter()
            .filter(|package| {
                package.manifest_path.contains("crates") || package.manifest_path.contains("apps")
            })
            .map(|package| package.id.clone())
            .collect(),
        packages,
    };
    check_crates(&metadata).iter().map(ToString::to_string).collect()
}

#[test]
fn the_table_of_crates_holds() {
    let found = crates(vec![
        package("strandline-wire", "crates", &[]),
        package("strandline-proto", "crates", &[("strandline-wire", None), ("strandline-io", None)]),
        package("strandline-io", "crates", &[]),
        package("strandline", "crates", &[("strandline-proto", None), ("strandline-io", None)]),
        package("strandline-load", "apps", &[("strandline", None), ("strandline-proto", None)]),
        package("strandline-cli", "apps", &[("strandline", None), ("strandline-load", None)]),
        package("strandline-new", "crates", &[("strandline-wire", None)]),
    ]);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(
        found[0]
            .starts_with("crates/strandline-proto/Cargo.toml:1: strandline-proto depends on strandline-io")
    );
    assert!(
        found[1]
            .starts_with("apps/strandline-load/Cargo.toml:1: strandline-load depends on strandline-proto")
    );
    assert!(found[2].contains("strandline-new depends on strandline-wire"));
}

#[test]
fn indirect_runtime_is_found_except_in_tests() {
    let found = crates(vec![
        package("strandline-proto", "crates", &[("helper", None)]),
        package("strandline-io", "crates", &[("tokio", Some("dev"))]),
        package("helper", "registry", &[("tokio", None)]),
        package("tokio", "registry", &[]),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("strandline-proto -> helper -> tokio"), "{found:?}");
}

#[test]
fn crates_that_do_not_exist_are_reported() {
    let mut packages: Vec<Package> = CRATES.iter().map(|(name, _)| package(name, "crates", &[])).collect();
    packages.extend([package(DISPATCHER, "apps", &[]), package(TESTS, "crates", &[])]);
    let missing = |packages: Vec<Package>| {
        let workspace_members = packages.iter().map(|package| package.id.clone()).collect();
        let metadata = Metadata { packages, workspace_members, resolve: Resolve { nodes: Vec::new() } };
        check_list(&metadata).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let fewer = packages.split_off(1);
    assert_eq!(
        missing(fewer.clone()),
        ["xtask/src/layers.rs:1: there is no crate strandline-wire: remove it from the tables"]
    );
    packages.extend(fewer);
    assert_eq!(missing(packages), Vec::<String>::new());
}

#[test]
fn states_of_the_sip_service_are_apart() {
    let rules = order::CRATES.iter().find(|rules| rules.within == "service").unwrap();
    let names: Vec<&str> = rules.layers.iter().flat_map(order::Layer::names).collect();
    let found = |registrations: &str| {
        let mut tree = Tree::of(&[]);
        tree.files.insert(rules.root.to_owned(), "mod service;\n".to_owned());
        let folder = "apps/strandline-sip/src/service";
        let modules = names.iter().map(|name| format!("mod {name};\n")).collect();
        tree.files.insert(format!("{folder}/mod.rs"), modules);
        for name in &names {
            let text = if *name == "registrations" { registrations } else { "" };
            tree.files.insert(format!("{folder}/{name}.rs"), text.to_owned());
        }
        let krate = Crate::load(&tree, rules.root);
        assert!(order::check_list(&krate, rules).is_empty());
        order::check(&krate, rules).len()
    };
    assert_eq!(found("use super::incoming::Incoming;\n"), 0);
    assert_eq!(found("use super::connections::ConnectionBook;\n"), 1);
}

#[test]
fn modules_and_exceptions_without_use_are_reported() {
    let rules = &order::PROTO;
    let names: Vec<&str> = rules.layers.iter().flat_map(order::Layer::names).collect();
    let found = |modules: &[&str], config: &str| {
        let mut tree = Tree::of(&[]);
        let root = modules.iter().map(|name| format!("mod {name};\n")).collect();
        tree.files.insert(rules.root.to_owned(), root);
        for name in modules {
            let text = if *name == "config" { config } else { "" };
            tree.files.insert(format!("crates/strandline-proto/src/{name}.rs"), text.to_owned());
        }
        order::check_list(&Crate::load(&tree, rules.root), rules)
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let used = "use crate::congestion::Algorithm;\n";
    assert_eq!(found(&names, used), Vec::<String>::new());
    let fewer: Vec<&str> = names.iter().copied().filter(|name| *name != "zone").collect();
    let line = "xtask/src/layers/order.rs:1:";
    assert_eq!(found(&fewer, used), [format!("{line} there is no module `zone`: remove it from its layer")]);
    let unused =
        format!("{line} `config` does not import crate::congestion::Algorithm: remove the exception");
    assert_eq!(found(&names, ""), [unused]);
}

/// Checks a crate with these modules, of which `listed` must be free of I/O.
fn impure(files: &[(&str, &str)], listed: &'static [&'static str]) -> Vec<String> {
    let root = "apps/a/src/lib.rs";
    let mut tree = Tree::of(&[]);
    let mods = files.iter().filter(|(name, _)| !name.contains('/'));
    let mods = mods.map(|(name, _)| format!("pub mod {};\n", name.trim_end_matches(".rs"))).collect();
    tree.files.insert(root.to_owned(), mods);
    for (name, text) in files {
        tree.files.insert(format!("apps/a/src/{name}"), (*text).to_owned());
    }
    let rules = pure::Pure::of(root, listed);
    pure::check(&tree, &rules).iter().map(ToString::to_string).collect()
}

#[test]
fn io_in_pure_modules_is_reported() {
    for (text, path) in [
        ("use tokio::io::AsyncRead;\n", "tokio::io::AsyncRead"),
        ("use std::fs;\n", "std::fs"),
        ("use std::net::{IpAddr, UdpSocket};\n", "std::net::UdpSocket"),
        ("fn f() { std::thread::yield_now(); }\n", "std::thread::yield_now"),
        ("use std::time::SystemTime as S;\n", "std::time::SystemTime"),
        ("use std::time;\nfn f(now: time::Instant) {}\n", "std::time::Instant"),
    ] {
        let files = [("codec.rs", "mod scan;\n"), ("codec/scan.rs", text), ("server.rs", text)];
        let found = impure(&files, &["codec"]);
        let end = format!(": `codec::scan` uses {path}: `codec` does no I/O and reads no clock");
        assert!(found.len() == 1 && found[0].ends_with(&end), "{found:?}");
    }
    let fine = "use std::net::SocketAddr;\nuse std::time::Duration;\nuse std::io::Write;\n";
    assert_eq!(impure(&[("codec.rs", fine)], &["codec"]), Vec::<String>::new());
    let missing = impure(&[("codec.rs", "")], &["codec", "gone"]);
    assert_eq!(
        missing,
        ["apps/a/src/lib.rs:1: there is no module `gone`: remove it from xtask/src/layers/pure.rs"]
    );
}

#[test]
fn modules_that_declare_no_io_are_checked() {
    let declared = "//! Rates. No\n//! I/O, no clock.\nuse std::fs;\n";
    let found = impure(&[("rates.rs", declared), ("files.rs", "//! Files.\nuse std::fs;\n")], &[]);
    assert_eq!(
        found,
        ["apps/a/src/rates.rs:3: `rates` uses std::fs: `rates` does no I/O and reads no clock"]
    );
}
