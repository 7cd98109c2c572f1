//! Headless Chromium.

use std::path::Path;
use std::process::Command;

/// Loads a page and returns its DOM and its log. The browser's profile is in `profile`.
pub fn browse(profile: &Path, url: &str, arguments: &[&str]) -> (String, String) {
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--log-level=0"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .arg(url)
        .output()
        .expect("chromium is one of the tests' packages: tests/interop/setup quick");
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}
