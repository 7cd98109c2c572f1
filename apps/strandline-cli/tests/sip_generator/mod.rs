//! Runs `strandline load sip` for a third of a second, with a JSON report.

use std::process::{Command, Output};

use serde_json::Value;

pub fn load(server: &str, arguments: &str) -> Output {
    let common = ["load", "sip", "--json", "--time", "0.3", "--warm-up", "0", "--server", server];
    Command::new(crate::sip_server::PROGRAM).args(common).args(arguments.split_whitespace()).output().unwrap()
}

/// Asserts that all requests that began succeeded.
pub fn succeeded(server: &str, arguments: &str) -> Value {
    let output = load(server, arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    let report: Value = serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{arguments}: {}", String::from_utf8_lossy(&output.stderr)));
    assert!(output.status.success(), "{arguments}: {text}");
    assert_eq!(report["succeeded"], report["begun"], "{arguments}: {text}");
    report
}
