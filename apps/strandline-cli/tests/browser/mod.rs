//! Headless Chromium.

use std::path::Path;
use std::process::Command;

/// Loads a page and returns its DOM and the messages of its console. The browser's profile is in `profile`.
pub fn browse(profile: &Path, url: &str, arguments: &[&str]) -> (String, String) {
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--log-level=0"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .arg(url)
        .output()
        .expect("chromium is one of the tests' packages: tests/interop/setup quick");
    let log = String::from_utf8_lossy(&output.stderr);
    // The browser's own pages have a console as well: on a busy host they report a slow network.
    let console = log.lines().filter(|line| line.contains("CONSOLE") && !line.contains("source: chrome://"));
    let console = console.map(|line| format!("{line}\n")).collect();
    (String::from_utf8_lossy(&output.stdout).into_owned(), console)
}
