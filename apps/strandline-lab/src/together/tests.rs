#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn what_each_printed_comes_in_order() {
    let reports = reports(&words(r#"echo {"a":1} + echo {"b":2}"#)).unwrap();
    assert_eq!(reports, [json!({ "a": 1 }), json!({ "b": 2 })]);
}

/// Returns whether a program with this argument is running.
fn runs(argument: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.flat_map(|process| std::fs::read(process.path().join("cmdline"))).any(|line| {
        let mut words = line.split(|byte| *byte == 0);
        words.next() == Some(b"sleep") && words.any(|word| word == argument.as_bytes())
    })
}

#[test]
fn one_that_fails_ends_the_others() {
    // No other process has this argument.
    let long = format!("1000.{}", std::process::id());
    for (command, failed) in [
        ("false + sleep LONG", "false"),
        ("sleep LONG + false", "false"),
        ("sleep LONG + no-such-program-anywhere", "no-such-program-anywhere"),
        ("sleep LONG + echo nothing + sleep LONG", "echo nothing"),
    ] {
        let error = reports(&words(&command.replace("LONG", &long))).unwrap_err();
        assert!(format!("{error:#}").contains(failed), "{command}: {error:#}");
        assert!(!runs(&long), "{command}");
    }
}

#[test]
fn a_plus_stands_between_programs() {
    for command in ["+", "echo {} +", "+ echo {}"] {
        let error = reports(&words(command)).unwrap_err();
        assert!(format!("{error:#}").contains('+'), "{command}: {error:#}");
    }
}
