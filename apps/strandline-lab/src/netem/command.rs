//! Runs the tools of the system.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, anyhow, bail};

/// Programs commonly run on a network, with the Debian package of each.
const PACKAGES: [(&str, &str); 33] = [
    ("ab", "apache2-utils"),
    ("chrt", "util-linux"),
    ("curl", "curl"),
    ("dig", "bind9-dnsutils"),
    ("ethtool", "ethtool"),
    ("h2load", "nghttp2-client"),
    ("ip", "iproute2"),
    ("iperf", "iperf"),
    ("iperf3", "iperf3"),
    ("iptables", "iptables"),
    ("mtr", "mtr-tiny"),
    ("nc", "netcat-openbsd"),
    ("netserver", "netperf"),
    ("netperf", "netperf"),
    ("nginx", "nginx-light"),
    ("nuttcp", "nuttcp"),
    ("ping", "iputils-ping"),
    ("python3", "python3"),
    ("sctp_darn", "lksctp-tools"),
    ("sctp_test", "lksctp-tools"),
    ("setpriv", "util-linux"),
    ("socat", "socat"),
    ("setsid", "util-linux"),
    ("ss", "iproute2"),
    ("ssh", "openssh-client"),
    ("taskset", "util-linux"),
    ("tc", "iproute2"),
    ("tcpdump", "tcpdump"),
    ("tracepath", "iputils-tracepath"),
    ("traceroute", "traceroute"),
    ("tshark", "tshark"),
    ("valgrind", "valgrind"),
    ("wget", "wget"),
];

/// Reference programs of this repository.
const REFERENCES: [&str; 2] = ["h2load-report", "http3-quinn"];

/// Returns a message that a program is missing, with how to install it.
#[must_use]
pub fn missing(program: &str) -> String {
    let name = program.rsplit('/').next().unwrap_or(program);
    if REFERENCES.contains(&name) {
        return format!(
            "{program} is not installed: run make lab-references, and add target/bench/release to PATH"
        );
    }
    match PACKAGES.iter().find(|(known, _)| *known == name) {
        Some((_, package)) => format!("{program} is not installed: apt-get install {package}"),
        None => format!("program '{program}' not found"),
    }
}

/// Runs a program with arguments and with `input` on its standard input.
///
/// # Errors
/// If the program failed, with its output, or is missing, with how to install it.
pub fn run(program: &str, arguments: &[&str], input: &str) -> Result<Output> {
    let told = || format!("{program} {}", arguments.join(" "));
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => anyhow!(missing(program)),
            _ => anyhow!(error).context(told()),
        })?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early reports the reason itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().with_context(told)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}", told(), said.trim());
    }
    Ok(output)
}

#[cfg(test)]
mod tests;
