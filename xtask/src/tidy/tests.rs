use super::*;

fn found(files: &[(&str, &str)]) -> Vec<String> {
    let mut found = check(&Tree::of(files));
    found.sort();
    found.iter().map(ToString::to_string).collect()
}

/// Checks one crate with this lib.rs.
fn library(text: &str) -> Vec<String> {
    found(&[("crates/c/Cargo.toml", "[package]\n"), ("crates/c/src/lib.rs", text)])
}

fn long_function(lines: usize) -> String {
    format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
}

#[test]
fn clean_files_pass() {
    let found = found(&[
        (
            "README.md",
            "[a](crates/c/src/lib.rs) [b](https://example.org) [c](#the-part-of-c) [d](docs/)\n\n## The part of `C`!\n",
        ),
        ("docs/a.md", "[up](../README.md#the-part-of-c)\n\n```\n[not a link](nowhere)\n```\n"),
        ("crates/c/Cargo.toml", "[package]\n"),
        ("crates/c/src/lib.rs", "//! C.\nfn f() -> Option<u8> { None }\n"),
    ]);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn long_files_and_functions_are_told() {
    let limit = "//\n".repeat(text::FILE_LINES_MAX);
    assert_eq!(found(&[("a.rs", &limit)]), Vec::<String>::new());
    let over = found(&[("a.rs", &format!("{limit}//\n"))]);
    assert_eq!(over, ["a.rs:601: the file has 601 lines: split it by concern, at most 600"]);
    assert_eq!(found(&[("a.rs", &long_function(code::FUNCTION_LINES_MAX))]), Vec::<String>::new());
    let over = found(&[("a.rs", &format!("\n/// Docs.\n{}", long_function(code::FUNCTION_LINES_MAX + 1)))]);
    assert_eq!(over, ["a.rs:3: function `long` has 71 lines: split it by step, at most 70"]);
    let method = format!("impl A {{\n{}}}\n", long_function(71));
    assert!(found(&[("a.rs", &method)])[0].starts_with("a.rs:2: function `long`"));
}

#[test]
fn whitespace_is_told() {
    assert!(found(&[("a", "x \n")])[0].starts_with("a:1: white space at the end"));
    assert!(found(&[("a", "x\ny\t\n")])[0].starts_with("a:2: white space at the end"));
    assert!(found(&[("a", "x\r\n")])[0].starts_with("a:1: CR"));
    assert!(found(&[("a", "x")])[0].starts_with("a:1: no newline"));
    assert!(found(&[("a", "x\n\n")])[0].starts_with("a:2: empty lines at the end"));
}

#[test]
fn forbidden_words_are_told_wherever_they_stand() {
    let cases = [
        format!("see {}{}main\n", "/wo", "rk/"),
        format!("# {}{}: later\n", "TO", "DO"),
        format!("fn f() {{ {}{}) }}\n", "todo", "!("),
        format!("fn f() {{ {}{}) }}\n", "unimplemented", "!("),
        format!("{}{}]\n", "#[ign", "ore"),
    ];
    for text in cases {
        let found = found(&[("notes", &format!("first\n{text}"))]);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].starts_with("notes:2: `"), "{}", found[0]);
    }
}

#[test]
fn panics_are_told_outside_tests_only() {
    let text = "// `x.unwrap()` in comments is fine.\nfn f() { g().unwrap(); }\nfn h() { println!(\"{}\", g().expect(\"\")); }\n\
                fn p() { panic!(); }\nfn ok() { g().unwrap_or(3); }\n\
                #[test]\nfn t() { g().unwrap(); }\n#[cfg(test)]\nimpl A { fn t() { g().unwrap(); } }\n";
    let found = library(text);
    let places: Vec<&str> = found.iter().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(
        places,
        ["crates/c/src/lib.rs:2", "crates/c/src/lib.rs:3", "crates/c/src/lib.rs:4"],
        "{found:?}"
    );
}

#[test]
fn panics_in_examples_are_told() {
    let text = "//! C.\n/// ```\n/// let a = f().unwrap();\n/// let b = g()?;\n/// ```\nfn f() {}\n\
                impl A {\n    /// `h().expect(\"x\")`\n    fn h() {}\n}\n";
    let found = library(text);
    assert_eq!(
        found,
        [
            "crates/c/src/lib.rs:3: `.unwrap()` in an example: hand the error on with `?`",
            "crates/c/src/lib.rs:8: `.expect(` in an example: hand the error on with `?`"
        ]
    );
}

#[test]
fn apps_must_not_panic_either_but_tools_may() {
    let of = |package: &str| {
        let (manifest, main) = (format!("{package}/Cargo.toml"), format!("{package}/src/main.rs"));
        found(&[(&manifest, "[package]\n"), (&main, "fn main() { g().unwrap(); }\n")])
    };
    assert!(of("apps/a")[0].starts_with("apps/a/src/main.rs:1: `unwrap` outside tests"));
    assert_eq!(of("bench/b"), Vec::<String>::new());
}

#[test]
fn tests_in_a_source_file_are_told() {
    let found = library("fn f() {}\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n");
    let expected =
        "crates/c/src/lib.rs:2: tests in the source file: move `tests` to a file beside it, `.../tests.rs`";
    assert_eq!(found, [expected]);
    assert_eq!(library("mod sealed { pub trait Sealed {} }\n"), Vec::<String>::new());
}

#[test]
fn sleeping_tests_are_told() {
    let told = |file: &str, line: &str| {
        let text = format!("fn f() {{\n{}\n}}\n", line.replace("SLEEP", concat!("sle", "ep")));
        found(&[(file, &text)])
    };
    for file in
        ["crates/c/tests/a.rs", "crates/c/src/a/tests.rs", "crates/c/src/tests/b.rs", "tests/src/peer.rs"]
    {
        for line in [
            "    tokio::time::SLEEP(MS).await;",
            "select! { () = SLEEP_until(at) => {} }",
            "std::thread::SLEEP(MS)",
        ] {
            let found = told(file, line);
            assert!(
                found.len() == 1 && found[0].starts_with(&format!("{file}:2: a test sleeps")),
                "{found:?}"
            );
        }
        for line in ["shell(\"SLEEP 60\");", "asSLEEP(x)", "self.SLEEP(x)", "// Sleeps because X.\nSLEEP(MS)"]
        {
            assert_eq!(told(file, line), Vec::<String>::new(), "{line}");
        }
    }
    assert_eq!(told("crates/c/src/a.rs", "SLEEP(MS)"), Vec::<String>::new());
}

#[test]
fn a_file_of_tests_may_panic() {
    let found = found(&[
        ("crates/c/Cargo.toml", "[package]\n"),
        ("crates/c/src/lib.rs", "#[cfg(test)]\nmod tests;\n"),
        ("crates/c/src/tests.rs", "fn t() { g().unwrap(); }\n"),
    ]);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_harness_may_assert() {
    let found = found(&[
        ("crates/strandline-sim/Cargo.toml", "[package]\n"),
        ("crates/strandline-sim/src/lib.rs", "fn f() { g().expect(\"\"); }\n"),
    ]);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_file_that_nothing_includes_is_told() {
    let found = found(&[
        ("crates/c/Cargo.toml", "[package]\n"),
        ("crates/c/src/lib.rs", "//! C.\n"),
        ("crates/c/src/bin/tool.rs", "fn main() {}\n"),
        ("crates/c/src/lost.rs", "//! Lost.\n"),
    ]);
    assert_eq!(found, ["crates/c/src/lost.rs:1: no module includes this file: add its `mod` or remove it"]);
}

#[test]
fn test_files_that_no_binary_includes_are_told() {
    let found = found(&[
        (
            "crates/c/Cargo.toml",
            "[package]\nautotests = false\n\n[[test]]\nname = \"all\"\n\n[[test]]\nname = \"more\"\npath = \"tests/more/main.rs\"\n",
        ),
        ("crates/c/src/lib.rs", "//! C.\n"),
        ("crates/c/tests/all.rs", "//! All.\n\nmod one;\n"),
        ("crates/c/tests/one.rs", "//! One.\n"),
        ("crates/c/tests/lost.rs", "//! Lost.\n"),
        ("crates/c/tests/more/main.rs", "//! More.\n\nmod two;\n"),
        ("crates/c/tests/more/two.rs", "//! Two.\n"),
    ]);
    assert_eq!(found, ["crates/c/tests/lost.rs:1: no module includes this file: add its `mod` or remove it"]);
}

#[test]
fn circles_names_and_unsafe_code_are_told() {
    let circle = found(&[
        ("apps/a/Cargo.toml", "[package]\n"),
        ("apps/a/src/main.rs", "mod x;\nmod y;\n"),
        ("apps/a/src/x.rs", "use crate::y::Y;\n"),
        ("apps/a/src/y.rs", "use crate::x::X;\n"),
    ]);
    assert!(circle.len() == 1 && circle[0].contains("circle between modules"), "{circle:?}");
    assert!(library("fn get_port() {}\n")[0].contains("call it `port`"));
    assert_eq!(library("fn get_mut() {}\n"), Vec::<String>::new());
    let text = "#![allow(unsafe_code)]\n";
    assert!(library(text)[0].starts_with("crates/c/src/lib.rs:1: unsafe code is allowed here"));
    let io = [("crates/strandline-io/Cargo.toml", "[package]\n"), ("crates/strandline-io/src/lib.rs", text)];
    assert_eq!(found(&io), Vec::<String>::new());
}

#[test]
fn dead_links_are_told() {
    let found = found(&[("docs/a.md", "fine\n[x](b.md) and [y](../README.md)\n")]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("docs/a.md:2: the link to `../README.md` leads nowhere"));
}

#[test]
fn anchors_without_heading_are_reported() {
    let text = "# A\n\n## [B_b](c.md), 2: x-y\n\n### A\n\n```\n# code\n```\n\n";
    let links = "[a](#a) [b](a.md#b_b-2-x-y) [c](#a-1)\n";
    assert_eq!(found(&[("a.md", &format!("{text}{links}")), ("c.md", "# C\n")]), Vec::<String>::new());
    for (file, anchor) in [("", "code"), ("", "a-2"), ("", ""), ("c.md", "a")] {
        let found = found(&[("a.md", &format!("{text}[x]({file}#{anchor})\n")), ("c.md", "# C\n")]);
        let shown = if file.is_empty() { "a.md" } else { file };
        let message =
            format!("the link to `{file}#{anchor}` names no heading of {shown}: name one that exists");
        assert_eq!(found, [format!("a.md:11: {message}")]);
    }
}

#[test]
fn missing_tests_in_documents_are_reported() {
    let found = found(&[
        ("crates/c/Cargo.toml", "[package]\n"),
        ("crates/c/src/lib.rs", "#[test]\nfn a_test_that_is_there() {}\nfn helper_of_two_tests() {}\n"),
        (
            "docs/conformance.md",
            "`a_test_that_is_there`, `a_test_that_is_not`, `no_test`, `helper_of_two_tests`\n",
        ),
    ]);
    let missing = |name| format!("docs/conformance.md:1: there is no test `{name}`: name one that exists");
    assert_eq!(found, ["a_test_that_is_not", "helper_of_two_tests"].map(missing));
}

#[test]
fn missing_files_of_faults_are_reported() {
    let table = "| fault | why not here |\n| x | `a/b.rs`, `a/none.rs`, not `strandline perf` |\n";
    let found = found(&[
        ("crates/strandline-proto/Cargo.toml", "[package]\n"),
        ("crates/strandline-proto/src/lib.rs", "mod a;\n"),
        ("crates/strandline-proto/src/a.rs", "mod b;\n"),
        ("crates/strandline-proto/src/a/b.rs", ""),
        ("docs/other-stacks-bugs.md", table),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("docs/other-stacks-bugs.md:2: there is no `a/none.rs`"), "{found:?}");
}

/// Each row of the table of requirements has a test or a marked exception, and its files exist.
#[test]
fn requirements_without_tests_are_reported() {
    let with = |row: &str| {
        let table = format!("| rule | code | test |\n|---|---|---|\n{row}\n");
        let tests =
            "#[tokio::test(start_paused = true)]\n#[cfg(unix)]\nasync fn it_works() {}\nfn helper() {}\n";
        found(&[
            ("crates/strandline-proto/src/a/b.rs", tests),
            ("crates/strandline-wire/src/chunk/c.rs", ""),
            ("crates/strandline-io/src/send.rs", ""),
            ("docs/conformance.md", &table),
        ])
    };
    for fine in [
        "| 1 | `a/b.rs`, `a`, `wire/chunk`, `wire/chunk/c.rs`, `a/b`, `strandline-io/src/send.rs` | `it_works` |",
        "| 1 | `strandline-io` (`IP_MTU`), `SomeType::method` | harness |",
        "| 1 | | the same; `it_works` |",
        "| 1 | | **not done**: `Control::set_primary` does |",
        "| 1 | | **no test**: the type makes it impossible |",
        "| **Not done**: all of it | | |",
    ] {
        assert_eq!(with(fine), Vec::<String>::new(), "{fine}");
    }
    for (row, told) in [
        ("| 1 | `a/b.rs` | `helper` |", "there is no test `helper`"),
        ("| 1 | `a/b.rs` | `it_works`, `wire` |", "there is no test `wire`"),
        ("| 1 | `a/b.rs` | |", "this rule has no test"),
        ("| 1 | `a/b.rs` | the application asserts it |", "this rule has no test"),
        ("| 1 | `a/c.rs` | `it_works` |", "there is no `a/c.rs`"),
        ("| 1 | `wire/a` | `it_works` |", "there is no `wire/a`"),
        ("| 1 | `b.rs` | `it_works` |", "there is no `b.rs`"),
        ("| 1 | `strandline-sim` | `it_works` |", "there is no `strandline-sim`"),
    ] {
        let found = with(row);
        let begins = format!("docs/conformance.md:3: {told}");
        assert!(found.len() == 1 && found[0].starts_with(&begins), "{row}: {found:?}");
    }
}

#[test]
fn wide_markdown_is_told() {
    let (fits, wide) = ("a".repeat(100), "a".repeat(101));
    let code = format!("    {wide}\n\n```\n{wide}\n```\n");
    let rest = format!("{fits}\n| {wide} |\n[a](https://{wide})\nhttps://{wide}\n");
    assert_eq!(found(&[("a.md", &format!("{rest}{code}"))]), Vec::<String>::new());
    assert_eq!(found(&[("a.md", &format!("{fits}\n{wide}\n"))]), ["a.md:2: 101 columns: wrap at 100"]);
}

#[test]
fn only_a_link_itself_may_be_wide() {
    let long = format!("{} [a link](https://a.org/{}).", "word ".repeat(18), "a".repeat(50));
    assert_eq!(found(&[("a.md", &format!("{long}\n"))]), Vec::<String>::new());
    let after = format!("{long} More");
    let before = format!("[a link](https://a.org/) {}", "word ".repeat(16).trim_end());
    for line in [after, before] {
        let wide = found(&[("a.md", &format!("{line}\n"))]);
        assert_eq!(wide, [format!("a.md:1: {} columns: wrap at 100", line.len())]);
    }
}

#[test]
fn dangling_doc_comments_are_told() {
    let fine = "/// Android.\n/// And so on.\nstruct A;\n// That is why.\n/// Thatch.\nstruct B;\n";
    assert_eq!(found(&[("a.rs", fine)]), Vec::<String>::new());
    let told = found(&[(
        "a.rs",
        "/// Tells whether it is.\nfn a() {}\n/// Whether it\n/// Tells whether.\nfn b() {}\n",
    )]);
    assert_eq!(told, ["a.rs:1: a doc comment begins with \"Tells whether\": write \"Whether\""]);
    for (line, comment) in ["/// The same for B.", "/// And more.", "/// That."].iter().enumerate() {
        let found = found(&[("a.rs", &format!("{}{comment}\nstruct A;\n", "\n".repeat(line)))]);
        assert!(found[0].starts_with(&format!("a.rs:{}: a doc comment begins", line + 1)), "{found:?}");
    }
}

#[test]
fn wide_comments_are_told() {
    let words = |columns: usize| "word ".repeat(columns / 5).trim_end().to_owned();
    let wide = words(130);
    let fine = format!(
        "// {}\n/// | {wide}|\n/// ```\n/// {wide}\n/// ```\n/// [`a`]: {wide}\nfn f() {{}} // {wide}\n",
        words(110)
    );
    assert_eq!(found(&[("a.rs", &fine)]), Vec::<String>::new());
    for begin in ["//", "///", "    //!", "/// ```\n/// ```\n///", "/// ```\nfn f() {}\n//"] {
        let found = found(&[("a.rs", &format!("{begin} {wide}\nfn g() {{}}\n"))]);
        assert_eq!(found.len(), 1, "{begin}: {found:?}");
        assert!(found[0].contains("wrap at 120"), "{found:?}");
    }
}

#[test]
fn long_names_of_tests_are_told() {
    let eight = "#[test]\nfn a_b_c_d_e_f_g_h() {}\nfn a_b_c_d_e_f_g_h_i() {}\n";
    assert_eq!(found(&[("a.rs", eight)]), Vec::<String>::new());
    let numbered = "#[test]\nfn section_7_2_1_a_b_c_d_e_f_g_h() {}\n";
    assert_eq!(found(&[("a.rs", numbered)]), Vec::<String>::new());
    for attribute in ["#[test]", "#[tokio::test]", "#[tokio::test(start_paused = true)]"] {
        let text = format!("{attribute}\n#[cfg(unix)]\nasync fn a_b_c_d_e_f_g_h_i() {{}}\n");
        let found = found(&[("a.rs", &text)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("a.rs:3: test `a_b_c_d_e_f_g_h_i` has 9 words"), "{found:?}");
    }
}

#[test]
fn large_types_are_told() {
    let fields = |count: usize| (0..count).map(|n| format!("f{n}: u8, ")).collect::<String>();
    let methods = |count: usize| (0..count).map(|n| format!("fn m{n}() {{}} ")).collect::<String>();
    let fine = format!(
        "struct A {{ {}}}\nimpl A {{ {}}}\nimpl Display for A {{ {}}}\n",
        fields(sizes::FIELDS_MAX),
        methods(sizes::METHODS_MAX),
        methods(3)
    );
    assert_eq!(library(&fine), Vec::<String>::new());
    let over = library(&format!("struct A {{ {}}}\n", fields(26)));
    assert_eq!(over, ["crates/c/src/lib.rs:1: struct `A` has 26 fields: split its state, at most 25"]);
    let over = library(&format!("impl A {{ {}}}\nimpl A {{ {}}}\n", methods(20), methods(21)));
    assert_eq!(over, ["crates/c/src/lib.rs:1: `A` has 41 methods: split it by concern, at most 40"]);
}

#[test]
fn unneeded_entries_of_larger_types_are_reported() {
    let files = [
        ("crates/strandline-sim/Cargo.toml", "[package]\n"),
        ("crates/strandline-sim/src/lib.rs", "//! S.\n"),
        ("xtask/src/tidy/sizes.rs", "//! T.\n"),
    ];
    assert_eq!(
        found(&files),
        [
            "xtask/src/tidy/sizes.rs:1: no type `scenario::Features` of crates/strandline-sim has more than 25 fields or 40 methods: remove it from LARGER"
        ]
    );
    assert_eq!(found(&files[..2]), Vec::<String>::new());
}

#[test]
fn types_of_one_name_are_counted_by_module() {
    let methods = |count: usize| (0..count).map(|n| format!("fn m{n}() {{}} ")).collect::<String>();
    let of_a = format!("struct S;\nimpl S {{ {} }}\n", methods(30));
    let crate_of = |more: &str| {
        found(&[
            ("crates/c/Cargo.toml", "[package]\n"),
            ("crates/c/src/lib.rs", "mod a;\nmod b;\n"),
            ("crates/c/src/a.rs", &of_a),
            ("crates/c/src/b.rs", more),
        ])
    };
    let own = format!("struct S;\nimpl S {{ {} }}\n", methods(30));
    assert_eq!(crate_of(&own), Vec::<String>::new());
    let imported = format!("use crate::a::S;\nimpl S {{ {} }}\n", methods(11));
    let path = format!("impl super::a::S {{ {} }}\n", methods(11));
    for other in [imported, path] {
        assert_eq!(
            crate_of(&other),
            ["crates/c/src/a.rs:2: `S` has 41 methods: split it by concern, at most 40"]
        );
    }
}

#[test]
fn number_of_two_decisions_is_rejected() {
    let (a, b, c) = ("docs/decisions/0001-a.md", "docs/decisions/0002-b.md", "docs/decisions/0002-c.md");
    let list = "docs/decisions/README.md";
    assert_eq!(found(&[(a, "# 1. A\n"), (b, "# 2. B\n"), (list, "# All\n")]), Vec::<String>::new());
    let over = found(&[(a, "# 1. A\n"), (b, "# 2. B\n"), (c, "# 2. C\n")]);
    assert_eq!(over, [format!("{c}:1: {b} has the number 0002 too: take the next free one")]);
}
