#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn reports_are_found() {
    assert_eq!(parse("{\n \"a\": 1\n}\n").unwrap()["a"], 1);
    assert_eq!(parse("{\"a\":1}\n{\"a\":2}\n\n").unwrap()["a"], 2);
    assert!(parse("\n").is_err());
    assert!(parse("nothing\n").is_err());
}

#[test]
fn quotas_have_no_realtime_priority() {
    assert_eq!(priority(true, false)[0], "chrt");
    assert_eq!(priority(true, true)[0], "nice");
    assert_eq!(priority(false, false)[0], "nice");
}
