//! Checks configurations with `strandline sip --check`.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns whether the program accepts a configuration, and its output.
pub fn check(text: &str) -> (bool, String) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name =
        format!("strandline-checked-{}-{}.toml", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, text).unwrap();
    let program = env!("CARGO_BIN_EXE_strandline");
    let output = Command::new(program).args(["sip", "--check", "--config"]).arg(&file).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

/// Asserts that the program accepts the configuration if `says` is empty, or else rejects it with a message
/// that contains `says`.
pub fn says(text: &str, says: &str) {
    let (right, told) = check(text);
    assert_eq!(right, says.is_empty(), "{text}: {told}");
    assert!(told.contains(says), "{told} lacks {says}");
}
