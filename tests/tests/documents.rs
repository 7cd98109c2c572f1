//! Checks that documents which list parts of the code list all of them.

// A failed expectation ends the test with its reason.
#![allow(clippy::expect_used)]

/// Returns the public fields of a struct, from its source.
fn fields<'a>(source: &'a str, name: &str) -> Vec<&'a str> {
    let start = source.find(&format!("pub struct {name} {{")).expect("the struct is there");
    let body = source[start..].split("\n}").next().unwrap_or_default();
    body.lines().skip(1).filter_map(|line| line.trim().strip_prefix("pub ")?.split(':').next()).collect()
}

#[test]
fn every_parameter_is_in_the_configuration_document() {
    let source = include_str!("../../crates/strandline-proto/src/config.rs");
    let document = include_str!("../../docs/configuration.md");
    let extensions = include_str!("../../crates/strandline-proto/src/config/extensions.rs");
    for (source, name, prefix, least) in [
        (source, "AssociationConfig", "", 10),
        (source, "EndpointConfig", "", 10),
        (extensions, "ExtensionsConfig", "extensions.", 2),
    ] {
        let fields = fields(source, name);
        assert!(fields.len() >= least, "{name} has {fields:?}");
        for field in fields.iter().filter(|field| **field != "extensions") {
            assert!(
                document.contains(&format!("| `{prefix}{field}` |")),
                "docs/configuration.md lacks {name}::{field}"
            );
        }
    }
}

/// The example of the README is the first one of the library's documentation, which runs as a test.
#[test]
fn readme_example_runs_as_a_test() {
    let readme = include_str!("../../README.md");
    let source = include_str!("../../crates/strandline/src/lib.rs");
    let shown = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```\n").next());
    let shown: Vec<&str> = shown.expect("an example").lines().collect();
    let documented = source.split("//! ```\n").nth(1).expect("an example");
    let visible = documented.lines().filter_map(|line| line.strip_prefix("//!")).map(str::trim_start);
    let visible: Vec<&str> = visible.skip_while(|line| !line.starts_with("let ")).collect();
    let hidden = |line: &&str| !line.starts_with("# ");
    assert_eq!(visible.into_iter().filter(hidden).collect::<Vec<_>>(), shown);
}

#[test]
fn every_decision_is_listed_by_its_title() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/decisions");
    // Long entries continue on the next line.
    let list = include_str!("../../docs/decisions/README.md").replace("\n  ", " ");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("decisions are there") {
        let path = entry.expect("one of them").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let Some(number) = name.get(..4).and_then(|digits| digits.parse::<u32>().ok()) else { continue };
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let title = text.lines().next().unwrap_or_default();
        let title = title.strip_prefix(&format!("# {number}. ")).expect("its heading is number and title");
        let line = format!("- [{number}. {title}]({name})");
        let is_listed = list.lines().any(|one| {
            let rest = one.strip_prefix(&line);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" (superseded "))
        });
        assert!(is_listed, "docs/decisions/README.md lacks {line}");
        count += 1;
    }
    assert!(count > 70, "{count} were looked at");
    let listed = list.lines().filter(|line| line.starts_with("- [")).count();
    assert_eq!(listed, count, "what is listed is there");
}

/// Returns the concatenation of all Rust files below a folder.
fn sources(folder: &std::path::Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("one of them").path();
        if path.is_dir() {
            all += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all += &std::fs::read_to_string(&path).expect("it can be read");
        }
    }
    all
}

/// Returns the rows of the tables in a page's section.
fn rows_of<'a>(page: &'a str, section: &str) -> impl Iterator<Item = &'a str> {
    let (_, after) = page.split_once(&format!("## {section}\n")).expect("the section is there");
    after.lines().take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with("| "))
}

#[test]
fn tests_named_in_operations_exist() {
    let page = include_str!("../../docs/sip-operation.md");
    let rows: Vec<&str> = rows_of(page, "Problems known from other servers")
        .filter(|line| !line.starts_with("| complaint"))
        .collect();
    let apps = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../apps"));
    let code = sources(&apps.join("strandline-sip")) + &sources(&apps.join("strandline-cli/tests"));
    for row in &rows {
        let shown_by = row.trim_matches('|').split('|').nth(2).unwrap_or_default();
        let names = shown_by.split('`').skip(1).step_by(2).filter(|name| !name.contains(' '));
        let mut count = usize::from(shown_by.contains("measured: ") || shown_by.contains("tests/rfc4475.rs"));
        for name in names {
            let is_there =
                [format!("fn {name}("), format!("    {name}: ")].iter().any(|text| code.contains(text));
            assert!(is_there, "there is no {name}: {row}");
            count += 1;
        }
        assert!(count > 0, "nothing shows it: {row}");
    }
    for named in ["3759", "4437, 2806", "3980", "4209", "4315", "1769", "Kamailio 260, OpenSIPS 3354", "908"]
    {
        assert!(rows.iter().any(|row| row.contains(named)), "{named} is missing");
    }
}

#[test]
fn who_knows_kamailio_finds_each_module() {
    let page = include_str!("../../docs/sip-operation.md");
    let names: Vec<&str> = rows_of(page, "Coming from Kamailio")
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .flat_map(|cell| cell.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_'))
        .collect();
    for module in [
        "usrloc",
        "registrar",
        "auth_db",
        "dispatcher",
        "pike",
        "ratelimit",
        "htable",
        "nathelper",
        "outbound",
        "path",
        "tls",
        "websocket",
        "siptrace",
        "xhttp_prom",
        "permissions",
        "domain",
        "uac",
        "dialog",
        "rr",
        "tm",
        "sl",
        "maxfwd",
        "gruu",
    ] {
        assert!(names.contains(&module), "docs/sip-operation.md lacks {module}");
    }
}
