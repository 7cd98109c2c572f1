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

#[test]
fn one_that_fails_ends_the_others() {
    for command in
        ["false + sleep 1000", r#"sleep 1000 + no-such-program-anywhere"#, "echo nothing + sleep 1000"]
    {
        let error = reports(&words(command)).unwrap_err();
        assert!(!format!("{error:#}").is_empty(), "{command}");
    }
}

#[test]
fn a_plus_stands_between_programs() {
    for command in ["+", "echo {} +", "+ echo {}"] {
        let error = reports(&words(command)).unwrap_err();
        assert!(format!("{error:#}").contains('+'), "{command}: {error:#}");
    }
}
