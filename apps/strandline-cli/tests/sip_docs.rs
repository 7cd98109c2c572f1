//! Tests that the documentation of `strandline sip` is complete: keys, options, admin requests, metrics.
#![allow(clippy::disallowed_methods, reason = "real servers take real time to start")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::sip_server::{PROGRAM, Server};

const PAGE: &str = include_str!("../../../docs/sip.md");

/// Returns the text below a heading.
fn section(heading: &str) -> &'static str {
    let (_, after) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    after.split("\n## ").next().unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("sip-docs-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn told(arguments: &[&str]) -> String {
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the words of a text in backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the keys that a table, or the top level, may have: the program lists them in its error about an
/// unknown key. `None` if there is no such table.
fn keys_of(table: Option<&str>) -> Option<Vec<String>> {
    // Makes files of concurrent tests distinct.
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let path = folder(&format!("keys-{}", ASKED.fetch_add(1, Ordering::Relaxed))).join("sip.toml");
    for header in table.map_or(vec![String::new()], |name| vec![format!("[{name}]"), format!("[[{name}]]")]) {
        std::fs::write(&path, format!("{header}\nnothing_such = 1\n")).unwrap();
        let output = Command::new(PROGRAM).args(["sip", "--check", "--config"]).arg(&path).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{header}");
        if let Some((_, expected)) = told.split_once("unknown field `nothing_such`, expected ") {
            return expected.lines().next().map(quoted);
        }
    }
    None
}

/// Returns the keys of each table in the documented configuration, including commented-out ones.
fn documented_keys() -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::<String, BTreeSet<String>>::new();
    let mut table = String::new();
    let lines = section("Configuration").lines().skip(1);
    for line in lines.take_while(|line| line.is_empty() || line.starts_with("    ")) {
        let line = line.trim().trim_start_matches("# ");
        if line.starts_with('[') {
            table = line.split(']').next().unwrap().trim_start_matches('[').to_owned();
            all.entry(table.clone()).or_default();
        }
        // A line may name a key and another that replaces it.
        let parts: Vec<&str> = line.split(" = ").collect();
        for before in &parts[..parts.len() - 1] {
            let key = before.rsplit(' ').next().unwrap();
            if key
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter == '_' || letter.is_ascii_digit())
            {
                all.entry(table.clone()).or_default().insert(key.to_owned());
            }
        }
    }
    all
}

#[test]
fn every_key_of_the_configuration_is_documented() {
    let documented = documented_keys();
    let mut missing = Vec::new();
    for name in keys_of(None).unwrap() {
        match keys_of(Some(&name)) {
            Some(keys) => {
                let there = documented.get(&name).unwrap_or_else(|| panic!("[{name}] isn't documented"));
                missing.extend(
                    keys.iter().filter(|key| !there.contains(*key)).map(|key| format!("{name}.{key}")),
                );
            }
            None => assert!(documented[""].contains(&name), "{name} isn't documented"),
        }
    }
    assert!(missing.is_empty(), "docs/sip.md lacks {missing:?}");
    assert!(documented.len() > 18 && keys_of(Some("registrar")).unwrap().len() == 8);
}

#[test]
fn no_key_is_documented_that_is_not_there() {
    let tops = keys_of(None).unwrap();
    for (table, documented) in documented_keys() {
        let keys = match table.as_str() {
            "" => tops.clone(),
            table => keys_of(Some(table)).unwrap_or_else(|| panic!("there is no [{table}]")),
        };
        // Keys of a hop, in braces.
        let known = |key: &&String| {
            keys.contains(*key) || (table == "route" && ["uri", "priority"].contains(&key.as_str()))
        };
        let unknown: Vec<&String> = documented.iter().filter(|key| !known(key)).collect();
        assert!(unknown.is_empty(), "[{table}] has no {unknown:?}");
    }
}

/// Returns the names of subcommands and options in a help text.
fn in_help(help: &str) -> (Vec<String>, Vec<String>) {
    let commands = help.split_once("Commands:\n").map_or("", |(_, after)| after);
    let commands = commands.lines().take_while(|line| line.starts_with(' ')).filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then(|| name.to_owned())
    });
    let lines = help.split("Examples:").next().unwrap().lines().map(str::trim_start);
    let options = lines.filter(|line| line.starts_with('-')).filter_map(|line| {
        let name = line.split([' ', ',', '[']).find(|word| word.starts_with("--"))?.trim_end_matches('.');
        (!["--help", "--verbose", "--log-format"].contains(&name)).then(|| name.to_owned())
    });
    (commands.collect(), options.collect())
}

#[test]
fn every_option_and_admin_path_is_documented() {
    let (commands, options) = in_help(&told(&["sip", "--help"]));
    assert!(options.len() > 12 && commands == ["top", "admin", "parts"], "{options:?} {commands:?}");
    for option in options {
        assert!(section("Options").contains(&format!("`{option}")), "docs/sip.md lacks {option}");
    }
    for command in commands {
        assert!(PAGE.contains(&format!("strandline sip {command}")), "docs/sip.md lacks {command}");
    }
    let page = section("Administration");
    let (verbs, common) = in_help(&told(&["sip", "admin", "--help"]));
    assert!(verbs.len() >= 6, "{verbs:?}");
    for verb in verbs {
        let is_typed = page.lines().any(|line| line.starts_with("| `") && line.contains(&format!("`{verb}")));
        assert!(is_typed, "docs/sip.md has no row for `{verb}`");
        let (_, options) = in_help(&told(&["sip", "admin", "--token", "x", &verb, "--help"]));
        for option in options.iter().chain(&common) {
            assert!(page.contains(option.as_str()), "docs/sip.md lacks {option} of {verb}");
        }
    }
}

/// Returns the families of a metrics page: type and labels. Asserts that the page is valid for Prometheus.
fn families(page: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut all = BTreeMap::<String, (String, BTreeSet<String>)>::new();
    let (mut family, mut seen) = (String::new(), BTreeSet::new());
    for line in page.split_once("\r\n\r\n").unwrap().1.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            family = name.strip_prefix("strandline_sip_").unwrap().to_owned();
            assert!(help.ends_with('.') && !help.contains('\\'), "{line}");
            assert!(!all.contains_key(&family), "{family} comes twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name.strip_prefix("strandline_sip_"), Some(family.as_str()));
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            all.insert(family.clone(), (kind.to_owned(), BTreeSet::new()));
        } else {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok() && seen.insert(sample.to_owned()), "{line}");
            let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
            let (kind, known) = all.get_mut(&family).unwrap();
            let rest =
                name.strip_prefix(&format!("strandline_sip_{family}")).unwrap_or_else(|| panic!("{line}"));
            let parts: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(parts.contains(&rest), "{line}");
            let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
            known.extend(labels.map(|label| label.split('=').next().unwrap().to_owned()));
        }
    }
    all
}

/// A row of the metrics table: type and unit, labels, and the heading it is under.
struct Row {
    kind: String,
    labels: BTreeSet<String>,
    heading: String,
}

fn documented_metrics() -> BTreeMap<String, Row> {
    let mut heading = String::new();
    let mut rows = BTreeMap::new();
    for line in section("Metrics").lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if let Some(name) = cells[0].strip_prefix("**") {
            heading = name.trim_end_matches("**").to_owned();
        } else if let [name] = &quoted(cells[0])[..] {
            let (kind, unit) = cells[1].split_once(", ").unwrap_or_else(|| panic!("{line}"));
            assert!(!unit.is_empty() && cells[3].len() > 5, "{line}");
            let labels = quoted(cells[2]).into_iter().collect();
            let row = Row { kind: kind.to_owned(), labels, heading: heading.clone() };
            assert!(rows.insert(name.clone(), row).is_none(), "{name} stands there twice");
        }
    }
    rows
}

#[test]
fn alerts_are_about_metrics_that_there_are() {
    let rules = include_str!("../../../docs/strandline-sip-alerts.yml");
    let documented = documented_metrics();
    let (mut names, mut rest) = (BTreeSet::new(), rules);
    while let Some((_, after)) = rest.split_once("strandline_sip_") {
        let end = after.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_').unwrap();
        names.insert(after[..end].trim_end_matches("_bucket").to_owned());
        rest = &after[end..];
    }
    let unknown: Vec<&String> = names.iter().filter(|name| !documented.contains_key(*name)).collect();
    assert!(unknown.is_empty() && names.len() > 10, "{unknown:?} {names:?}");
}

#[test]
fn every_alert_says_what_to_do() {
    let rules = include_str!("../../../docs/strandline-sip-alerts.yml");
    let page = include_str!("../../../docs/sip-operation.md");
    let alerts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    for alert in &alerts {
        let name = alert.lines().next().unwrap();
        let (_, advice) = alert.split_once("description: >-\n").unwrap_or_else(|| panic!("{name}"));
        assert!(advice.trim().len() > 20, "{name}");
        let row = page.lines().find(|line| line.starts_with(&format!("| {name} |")));
        let cells: Vec<&str> =
            row.unwrap_or_else(|| panic!("{name} isn't in the table")).split(" |").collect();
        assert!(cells.len() == 6 && cells[4].len() > 20, "{name}: {cells:?}");
        assert!(["critical", "warning"].contains(&cells[1].trim()), "{name}: {cells:?}");
        let severity = format!("        labels:\n          severity:{}\n", cells[1]);
        assert!(alert.contains(&severity), "{name} has another severity than{}", cells[1]);
    }
    assert_eq!(page.lines().filter(|line| line.starts_with("| Sip")).count(), alerts.len());
}

#[test]
fn metrics_are_as_documented() {
    let store = folder("metrics").join("sip.db");
    let config = store.with_file_name("sip.toml");
    std::fs::write(
        &config,
        format!(
            "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"udp\"\naddress = \"127.0.0.1:0\"\n\
             [store]\npath = \"{}\"\n[metrics]\naddress = \"127.0.0.1:0\"\n[hep]\ncollector = \"127.0.0.1:9\"\n",
            store.display()
        ),
    )
    .unwrap();
    let mut server = Server::configured(&config);
    let mut there = families(&server.metrics("/metrics"));
    server.kill();
    let several = Server::announced(
        Command::new(PROGRAM).args(["sip", "--json", "--processes", "2", "--config"]).arg(&config),
    );
    let until = Instant::now() + Duration::from_secs(60);
    while !several.metrics("/metrics").contains("worker=\"2\"") {
        assert!(Instant::now() < until, "the second process says nothing");
    }
    let of_two = families(&several.metrics("/metrics"));
    for (name, (kind, mut labels)) in of_two {
        let is_of_one = labels.remove("worker");
        match there.get(&name) {
            Some((same, usual)) => {
                assert_eq!((same, usual, is_of_one), (&kind, &labels, true), "{name}");
            }
            None => drop(there.insert(name, (kind, labels))),
        }
    }
    let documented = documented_metrics();
    let lacks: Vec<&String> = there.keys().filter(|name| !documented.contains_key(*name)).collect();
    assert!(lacks.is_empty(), "docs/sip.md lacks {lacks:?}");
    let source = include_str!("../../strandline-sip/src/server/metrics.rs");
    for (name, row) in documented {
        match there.get(&name) {
            Some((kind, labels)) => assert_eq!((&row.kind, &row.labels), (kind, labels), "{name}"),
            // These need a database here.
            None => assert!(
                row.heading == "with a store that nodes share" && source.contains(&format!("\"{name}\"")),
                "there is no {name}"
            ),
        }
    }
}
