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
fn sip_codec_is_lowest_and_without_io() {
    let root = "pub mod codec;\npub mod proxy;\n";
    let codec = "mod scan;\nuse crate::proxy::Route;\npub struct Message;\n";
    let tree = Tree::of(&[
        (SIP_ROOT, root),
        ("apps/strandline-sip/src/codec/mod.rs", codec),
        ("apps/strandline-sip/src/codec/scan.rs", "use tokio::io::AsyncRead;\n"),
        (
            "apps/strandline-sip/src/proxy.rs",
            "use crate::codec::Message;\nuse tokio::net::UdpSocket;\npub struct Route;\n",
        ),
    ]);
    let found: Vec<String> =
        check_codec(&Crate::load(&tree, SIP_ROOT)).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "apps/strandline-sip/src/codec/mod.rs:2: `codec` imports `proxy`: it is below all others",
            "apps/strandline-sip/src/codec/scan.rs:1: `codec::scan` uses tokio::io::AsyncRead: the codec does no I/O",
        ]
    );
}
