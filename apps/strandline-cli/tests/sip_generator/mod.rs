//! Runs `strandline load sip` for a third of a second, with a JSON report.

use std::process::{Command, Output};

use serde_json::Value;

/// Maximum number of loads until the server refuses nothing of one.
const LOADS_MAX: usize = 30;

pub fn load(server: &str, arguments: &str) -> Output {
    let common = ["load", "sip", "--json", "--time", "0.3", "--warm-up", "0", "--server", server];
    Command::new(crate::sip_server::PROGRAM).args(common).args(arguments.split_whitespace()).output().unwrap()
}

/// Asserts that all requests that began succeeded, in a load of which the server has refused nothing.
pub fn succeeded(server: &str, arguments: &str) -> Value {
    let report = unrefused(|| load(server, arguments));
    assert!(report["succeeded"].as_u64() > Some(0), "{arguments}: {report}");
    report
}

/// Repeats a load until the server has refused nothing: on a busy host its requests may wait for so long that it
/// refuses some. All others succeed each time. Returns the last report, of a load that exits with success.
pub fn unrefused(mut load: impl FnMut() -> Output) -> Value {
    let mut reports = (0..LOADS_MAX).map(|_| {
        let output = load();
        let told = String::from_utf8_lossy(&output.stderr);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{told}"));
        assert!(output.status.success() || report["refused"] != 0, "{told}{report}");
        let number = |name: &str| report[name].as_u64().unwrap();
        assert_eq!(number("succeeded") + number("refused"), number("begun"), "{report}");
        report
    });
    reports.find(|report| report["refused"] == 0).expect("a load without refusals")
}
