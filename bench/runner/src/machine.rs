//! The machine and the versions that were measured.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::network::{TCP_CONGESTION, run};
use crate::programs::{go, root};

fn file(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Returns the load average over the last minute.
pub(crate) fn load() -> Option<f64> {
    file("/proc/loadavg")?.split_whitespace().next()?.parse().ok()
}

pub(crate) fn describe() -> Value {
    let cpu = file("/proc/cpuinfo").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    json!({
        "cpu": cpu,
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": file("/proc/sys/kernel/osrelease"),
        "governor": file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "tcp_congestion_control": TCP_CONGESTION,
        "rmem_max": file("/proc/sys/net/core/rmem_max"),
        "load_average": load(),
    })
}

pub(crate) fn versions() -> Value {
    let mut versions = Map::new();
    let mut add = |name: &str, version: Option<String>| {
        versions.insert(name.to_owned(), json!(version));
    };
    let said =
        |words: &[&str]| run(words).ok().map(|text| text.lines().next().unwrap_or("").trim().to_owned());
    add("strandline", said(&["git", "describe", "--always", "--dirty"]));
    add("rustc", said(&["rustc", "--version"]));
    add("gcc", said(&["gcc", "--version"]));
    let go = go().ok().and_then(|go| said(&[go.to_str()?, "version"]));
    add("go", go);
    add("iperf3", said(&["iperf3", "--version"]));
    add("usrsctp", said(&["dpkg-query", "--showformat=${Version}", "--show", "libusrsctp-dev"]));
    let references = root().ok().map(|root| root.join("bench/references"));
    for name in ["dcsctp", "quinn", "rustls"] {
        add(name, references.as_deref().and_then(|folder| locked(folder, name)));
    }
    let module =
        references.and_then(|folder| std::fs::read_to_string(folder.join("pion-stream/go.mod")).ok());
    let pion = module.and_then(|text| {
        let line = text.lines().find(|line| line.trim().starts_with("github.com/pion/sctp "))?;
        line.split_whitespace().nth(1).map(str::to_owned)
    });
    add("pion", pion);
    Value::Object(versions)
}

/// Returns a crate's version in the references' lock file.
fn locked(folder: &Path, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(folder.join("Cargo.lock")).ok()?;
    let lock: toml::Table = text.parse().ok()?;
    let package = lock
        .get("package")?
        .as_array()?
        .iter()
        .find(|package| package.get("name").and_then(toml::Value::as_str) == Some(name))?;
    package.get("version")?.as_str().map(str::to_owned)
}
