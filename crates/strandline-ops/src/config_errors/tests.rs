use serde::Deserialize;

use super::*;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(dead_code, reason = "only read by tests that show it")]
struct File {
    listen: Option<String>,
    limits: Limits,
    peer: Vec<Peer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(dead_code, reason = "only read by tests that show it")]
struct Limits {
    most: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only read by tests that show it")]
struct Peer {
    name: String,
    addresses: Vec<String>,
}

fn parse(text: &str) -> Result<File, ConfigError> {
    parse_document(Path::new("x.toml"), text)
}

/// The places of the errors of a document: line and column, and what is wrong.
fn errors(text: &str) -> Vec<String> {
    let all = match parse(text).unwrap_err() {
        ConfigError::Several(all) => all,
        one => vec![one],
    };
    let places = all.iter().map(|error| {
        let said = error.to_string();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "x.toml:", "{said}");
        let place = lines[1].strip_prefix("TOML parse error at line ").unwrap();
        format!("{}: {}", place.replace(", column ", ":"), lines.last().unwrap())
    });
    places.collect()
}

#[test]
fn all_that_is_malformed_is_reported() {
    let text = "lisen = \"a\"\n\
                [[peer]]\nname = 7\naddresses = [\"a\", 2, 3]\n\
                [[peer]]\nname = \"b\"\n\
                [limits]\nmost = -1\nleast = 3\n";
    let errors = errors(text);
    let expected = [
        ("1:1", "unknown field `lisen`"),
        ("3:8", "invalid type: integer `7`"),
        ("4:19", "invalid type: integer `2`"),
        ("4:22", "invalid type: integer `3`"),
        ("5:1", "missing field `addresses`"),
        ("8:8", "invalid value: integer `-1`"),
        ("9:1", "unknown field `least`"),
    ];
    for (at, what) in expected {
        let found =
            errors.iter().filter(|error| error.starts_with(&format!("{at}: ")) && error.contains(what));
        assert_eq!(found.count(), 1, "{at} {what}: {errors:#?}");
    }
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    let lines = errors.iter().map(|error| error.split(':').next().unwrap().parse::<u32>().unwrap());
    assert!(lines.is_sorted(), "{errors:#?}");
}

#[test]
fn lists_for_tables_are_reported_once() {
    let errors = errors("[[limits]]\nmost = 1\n[peer]\nname = \"a\"\n");
    assert_eq!(errors.len(), 2, "{errors:#?}");
    assert!(
        errors[0].starts_with("1:1: invalid type") && errors[1].starts_with("3:1: invalid type"),
        "{errors:#?}"
    );
}

#[test]
fn what_is_no_toml_is_reported_as_such() {
    let errors = errors("listen = \n[limits\nmost = 1\n[[peer]]\nname = \"a\"\n");
    assert!(errors.len() >= 2 && errors[0].starts_with("1:"), "{errors:#?}");
    assert!(errors.iter().all(|error| !error.contains("missing field")), "{errors:#?}");
}

#[test]
fn a_document_is_parsed() {
    let file = parse("listen = \"a\"\n[[peer]]\nname = \"b\"\naddresses = []\n[limits]\nmost = 3\n").unwrap();
    assert_eq!((file.listen.as_deref(), file.limits.most, file.peer.len()), (Some("a"), Some(3), 1));
    let many: String = (0..100).map(|at| format!("key{at} = {at}\n")).collect();
    assert_eq!(errors(&many).len(), MALFORMED_MAX);
}

#[test]
fn errors_are_noted_until_the_end() {
    let mut errors = ConfigErrors::default();
    assert_eq!(errors.take(Ok(1)), Some(1));
    assert_eq!(errors.take::<u32>(Err(ConfigError::value("a", "wrong"))), None);
    assert_eq!(errors.take_or(Err(ConfigError::value("b", "wrong")), 3), 3);
    assert_eq!(errors.take_all("c", [Ok(4), Err("x".to_owned()), Ok(5), Err("y".to_owned())]), [4, 5]);
    let said = errors.finish().unwrap_err().to_string();
    assert_eq!(said, "a: wrong\nb: wrong\nc: x\nc: y");
    let mut one = ConfigErrors::default();
    one.take::<()>(Err(ConfigError::value("limits.most", "a number")));
    let placed = one.finish().unwrap_err().in_file(Path::new("x.toml"), "[limits]\nmost = 0\n");
    assert_eq!(placed.to_string(), "x.toml:2: limits.most: a number");
    assert!(ConfigErrors::default().finish().is_ok());
}

/// The parser reports the end of this string at the end of the line, and once more for the array around it.
#[test]
fn an_error_of_the_syntax_is_reported_once() {
    let text = "inner = { a = 1, other = 1 \"quot\"d.key\" = 1\n";
    let Err(error) = parse(text) else { panic!("it is no TOML") };
    let said = error.to_string();
    let all: Vec<&str> = said.split("x.toml:").collect();
    assert!(all.iter().enumerate().all(|(at, one)| !all[..at].contains(one)), "{said}");
}

/// A log, or anything else that was never meant to be a configuration, has an error with every few bytes.
#[test]
fn another_kind_of_file_has_few_errors() {
    let line = "2026-11-30T04:36:11Z INFO sip: \"REGISTER\" from 192.0.2.1:5060 = {200, OK}, [12 ms\n";
    let small = line.repeat(1000);
    assert_eq!(errors(&small).len(), MALFORMED_MAX);
    let large = line.repeat(5_000_000 / line.len());
    let errors = errors(&large);
    assert!(errors.len() == 1 && errors[0].starts_with("1:"), "{errors:#?}");
}

#[test]
fn printed_errors_do_not_grow_with_the_document() {
    let long = "x".repeat(300_000);
    let cases = [
        (format!("listen = {long}\n"), "1:10"),
        (format!("{long}\n"), "1:"),
        (format!("listen = \"{long}\n"), "1:"),
        (format!("# {long}\n{long} = 1\n"), "2:1"),
        (format!("limits = {{ most = \"{long}\" }}\n"), "1:19"),
        (format!("listen = \"{long}\" {long}"), "1:300013"),
        (format!("listen = {}", "[ ".repeat(150_000)), "1:"),
    ];
    for (text, place) in cases {
        let start = &text[..16];
        let said = parse(&text).unwrap_err().to_string();
        assert!(said.len() < 40_000, "{start}: {} bytes", said.len());
        let first = &errors(&text)[0];
        assert!(first.starts_with(place), "{start}: {first}");
    }
}
