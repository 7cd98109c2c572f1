use std::fs;

use serde_json::{Value, json};

use super::AccessLog;
use crate::refused_lines::Source;

#[test]
fn lines_go_to_the_file_opened_last() {
    let path = std::env::temp_dir().join(format!("strandline-gateway-log-{}", std::process::id()));
    let renamed = path.with_extension("1");
    let log = AccessLog::open(&path).unwrap();
    log.write("one".to_owned());
    fs::rename(&path, &renamed).unwrap();
    log.reopen();
    log.write("two".to_owned());
    drop(log);
    assert_eq!(fs::read_to_string(&renamed).unwrap(), "one\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    fs::remove_file(path).unwrap();
    fs::remove_file(renamed).unwrap();
}

/// The sums of refused connections are written without another connection, and at the end.
#[test]
fn sums_of_refused_connections_are_written() {
    let path = std::env::temp_dir().join(format!("strandline-gateway-refused-{}", std::process::id()));
    let log = AccessLog::open(&path).unwrap();
    let refuse = || {
        for _ in 0..200 {
            log.write_refused(("limit", Source::Peer("far".into())), || json!({}));
        }
    };
    let sum = || -> u64 {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| 1 + line["more"].as_u64().unwrap_or(0)).sum()
    };
    refuse();
    while sum() < 200 {
        std::thread::yield_now();
    }
    refuse();
    drop(log);
    assert_eq!(sum(), 400);
    let lines = fs::read_to_string(&path).unwrap().lines().count();
    assert!(lines < 100, "{lines}");
    fs::remove_file(path).unwrap();
}
