use super::*;
use crate::tree::Tree;

fn found(files: &[(&str, &str)]) -> Vec<String> {
    let krate = Crate::load(&Tree::of(files), "src/lib.rs");
    assert_eq!(krate.broken, []);
    circles(&krate).iter().map(ToString::to_string).collect()
}

#[test]
fn circle_of_two_files_shows_both_places() {
    let found = found(&[
        ("src/lib.rs", "mod a;\nmod b;\n"),
        ("src/a.rs", "use crate::b::B;\npub struct A;\n"),
        ("src/b.rs", "\nfn f(a: super::a::A) {}\npub struct B;\n"),
    ]);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("src/a.rs:1: circle between modules: a uses crate::b::B (src/a.rs:1), b uses")
    );
    assert!(found[0].contains("(src/b.rs:2)"), "{}", found[0]);
}

#[test]
fn a_circle_through_three_folders_is_one_circle() {
    let found = found(&[
        ("src/lib.rs", "mod a;\nmod b;\nmod c;\n"),
        ("src/a/mod.rs", "mod deep;\n"),
        ("src/a/deep.rs", "use crate::b::B;\n"),
        ("src/b.rs", "use crate::c::inner::C;\npub struct B;\n"),
        ("src/c/mod.rs", "pub mod inner;\n"),
        ("src/c/inner.rs", "use crate::a::A;\npub struct C;\n"),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn circle_behind_a_re_export_is_found() {
    let found = found(&[
        ("src/lib.rs", "mod a;\nmod b;\npub use b::B;\n"),
        ("src/a.rs", "use crate::B;\npub struct A;\n"),
        ("src/b.rs", "use crate::a::A;\npub struct B;\n"),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn siblings_are_checked_but_not_parents() {
    let circle = found(&[
        ("src/lib.rs", "mod a;\n"),
        ("src/a/mod.rs", "mod x;\nmod y;\npub struct A(x::X);\n"),
        ("src/a/x.rs", "use super::A;\nuse super::y::Y;\npub struct X;\n"),
        ("src/a/y.rs", "use super::x::X;\npub struct Y;\n"),
    ]);
    assert_eq!(circle.len(), 1, "{circle:?}");
    assert!(circle[0].contains("a::x uses super::y::Y"), "{}", circle[0]);
}

#[test]
fn a_chain_and_the_outside_are_no_circle() {
    let found = found(&[
        ("src/lib.rs", "mod a;\nmod b;\nmod c;\n"),
        ("src/a.rs", "use crate::{b::B, c::C};\nuse bytes::Bytes;\nuse std::fmt;\n"),
        ("src/b.rs", "use crate::c::C;\nimpl fmt::Debug for C {}\npub struct B;\n"),
        ("src/c.rs", "pub struct C;\n#[cfg(test)]\nmod tests { use crate::a; }\n"),
    ]);
    assert_eq!(found, Vec::<String>::new());
}
