use super::*;

fn reference(krate: &Crate, module: &str) -> Vec<String> {
    let module = &krate.modules[krate.find(module).expect(module)];
    module.references.iter().map(|reference| reference.segments.join("::")).collect()
}

#[test]
fn module_files_and_inline_modules_form_a_tree() {
    let tree = Tree::of(&[
        ("c/src/lib.rs", "mod a;\nmod b;\nmod d { mod e; }\n"),
        ("c/src/a.rs", "mod inner;\n"),
        ("c/src/a/inner.rs", ""),
        ("c/src/b/mod.rs", "mod inner;\n"),
        ("c/src/b/inner.rs", ""),
        ("c/src/d/e.rs", ""),
    ]);
    let krate = Crate::load(&tree, "c/src/lib.rs");
    assert_eq!(krate.broken, []);
    let mut names: Vec<String> = (0..krate.modules.len()).map(|module| krate.name(module)).collect();
    names.sort();
    assert_eq!(names, ["a", "a::inner", "b", "b::inner", "crate", "d", "d::e"]);
}

#[test]
fn missing_or_broken_module_files_are_reported() {
    let tree = Tree::of(&[("c/src/lib.rs", "\nmod gone;\nmod bad;\n"), ("c/src/bad.rs", "fn {\n")]);
    let broken = Crate::load(&tree, "c/src/lib.rs").broken;
    let places: Vec<(&str, usize)> = broken.iter().map(|found| (found.file.as_str(), found.line)).collect();
    assert_eq!(places, [("c/src/lib.rs", 2), ("c/src/bad.rs", 1)]);
}

#[test]
fn imports_are_found_in_all_syntax() {
    let text = "use crate::a::{self, b::C, d as e};\nfn f(x: crate::t::T) { crate::v::g(); println!(\"{}\", crate::m::X); }\n";
    let krate = Crate::load(&Tree::of(&[("c/src/lib.rs", text)]), "c/src/lib.rs");
    let found = reference(&krate, "crate");
    for wanted in ["crate::a", "crate::a::b::C", "crate::a::d", "crate::t::T", "crate::v::g", "crate::m::X"] {
        assert!(found.contains(&wanted.to_owned()), "{wanted} is missing in {found:?}");
    }
    let uses = &krate.modules[0].uses;
    assert_eq!(uses.keys().collect::<Vec<_>>(), ["C", "a", "e"]);
    assert_eq!(uses["e"], ["crate", "a", "d"]);
}

#[test]
fn test_code_does_not_count() {
    let text = "#[cfg(test)] use crate::a::A;\n#[cfg(all(test, unix))] mod tests { use crate::b::B; }\n\
                #[test] fn t() { crate::c::d() }\n#[cfg(any(test, unix))] use crate::e::E;\n\
                #[cfg(any(test, feature = \"fuzzing\"))] use crate::f::F;\n";
    let krate = Crate::load(&Tree::of(&[("c/src/lib.rs", text)]), "c/src/lib.rs");
    assert_eq!(reference(&krate, "crate"), ["crate::e::E"]);
    assert!(krate.modules[krate.find("tests").expect("tests")].test);
}

#[test]
fn granting_visibility_is_no_import() {
    let tree = Tree::of(&[("c/src/lib.rs", "pub(in crate::a) fn f() {}\n")]);
    assert_eq!(reference(&Crate::load(&tree, "c/src/lib.rs"), "crate"), Vec::<String>::new());
}
