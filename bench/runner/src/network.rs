//! Two network namespaces joined by a veth pair of MTU 1500. They are removed with this value, together with
//! the programs in them; those of a killed run are removed by the next run.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::left;
use crate::plan::Link;

const RECEIVER: &str = "10.200.0.2";
const SENDER: &str = "10.200.0.1";
const SUBNET: &str = "10.200.0.0/24";
const DEVICE: &str = "veth0";
/// Prefixes of the namespaces' names, followed by the number of the process that created them.
const NAMES: [&str; 2] = ["bench-a", "bench-b"];
/// Congestion control of the kernel's TCP.
pub(crate) const TCP_CONGESTION: &str = "cubic";

/// Returns the receiver's address.
pub(crate) const fn receiver(link: Link) -> &'static str {
    if matches!(link, Link::Loopback) { "127.0.0.1" } else { RECEIVER }
}

/// The side on which a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Sender,
    Receiver,
}

#[derive(Debug)]
pub(crate) struct Network {
    sender: String,
    receiver: String,
    state: State,
}

/// The current state of the link.
#[derive(Debug)]
struct State {
    /// `None` while it is being switched, and after a failed switch: its state is then unknown.
    link: Option<Link>,
}

impl State {
    /// Brings the link into a state, by calls that switch one feature each.
    fn switch(&mut self, link: Link, mut feature: impl FnMut(&str, &str) -> Result<()>) -> Result<()> {
        // The loopback interface doesn't use the pair, which stays as it is.
        if link == Link::Loopback {
            return Ok(());
        }
        if self.link.replace(link) == Some(link) {
            return Ok(());
        }
        self.link = None;
        // A veth has GRO off unless requested: the default is the kernel's.
        let (segmentation, udp_segmentation) = match link {
            Link::Default | Link::Loopback => ("on", "on"),
            Link::OffloadsOff => ("off", "on"),
            Link::AllOffloadsOff => ("off", "off"),
            Link::GsoInSoftware => ("on", "off"),
        };
        feature("tso", segmentation)?;
        feature("gso", segmentation)?;
        feature("gro", "off")?;
        feature("tx-udp-segmentation", udp_segmentation)?;
        self.link = Some(link);
        Ok(())
    }
}

impl Network {
    pub(crate) fn new() -> Result<Self> {
        remove_left()?;
        let [sender, receiver] = NAMES.map(|name| format!("{name}{}", std::process::id()));
        let network = Self { sender, receiver, state: State { link: Some(Link::Default) } };
        network.set_up()?;
        Ok(network)
    }

    fn set_up(&self) -> Result<()> {
        let (a, b) = (self.sender.as_str(), self.receiver.as_str());
        run(&["ip", "netns", "add", a])?;
        run(&["ip", "netns", "add", b])?;
        run(&["ip", "-n", a, "link", "add", DEVICE, "type", "veth", "peer", "name", DEVICE, "netns", b])?;
        for (namespace, address) in [(a, SENDER), (b, RECEIVER)] {
            let address = format!("{address}/24");
            run(&["ip", "-n", namespace, "address", "add", &address, "dev", DEVICE])?;
            run(&["ip", "-n", namespace, "link", "set", "lo", "up"])?;
            run(&["ip", "-n", namespace, "link", "set", DEVICE, "mtu", "1500", "up"])?;
            // Same as strandline's, whatever the system's default is: a namespace may not set its own
            // default, but a route can.
            let route = ["ip", "-n", namespace, "route", "replace", SUBNET, "dev", DEVICE];
            run(&[&route[..], &["congctl", TCP_CONGESTION]].concat())?;
            for own in ["127.0.0.0/8", "127.0.0.1"] {
                let route = ["ip", "-n", namespace, "route", "replace", "local", own, "dev", "lo"];
                let kept = ["table", "local", "proto", "kernel", "scope", "host", "src", "127.0.0.1"];
                run(&[&route[..], &kept, &["congctl", TCP_CONGESTION]].concat())?;
            }
        }
        Ok(())
    }

    pub(crate) fn namespace(&self, side: Side, link: Link) -> &str {
        match side {
            Side::Sender if link != Link::Loopback => &self.sender,
            Side::Sender | Side::Receiver => &self.receiver,
        }
    }

    /// Brings both ends into a state.
    pub(crate) fn set_link(&mut self, link: Link) -> Result<()> {
        let namespaces = [self.sender.as_str(), self.receiver.as_str()];
        self.state.switch(link, |feature, value| {
            for namespace in namespaces {
                run(&["ip", "netns", "exec", namespace, "ethtool", "-K", DEVICE, feature, value])?;
            }
            Ok(())
        })
    }

    /// Kills every program in the namespaces, which belong to the runner alone.
    pub(crate) fn end_programs(&self) -> Result<()> {
        for namespace in [&self.sender, &self.receiver] {
            left::end(&run(&["ip", "netns", "pids", namespace])?);
        }
        Ok(())
    }

    /// Returns how many of these are listened on, and their total: "udp:PORT", "tcp:PORT" or "raw", one or
    /// several.
    pub(crate) fn listened_on(&self, what: &str) -> Result<(usize, usize)> {
        let all = what.split_whitespace().map(|one| self.is_listened_on(one)).collect::<Result<Vec<_>>>()?;
        Ok((all.iter().filter(|listens| **listens).count(), all.len()))
    }

    fn is_listened_on(&self, what: &str) -> Result<bool> {
        let (kind, port) = what.split_once(':').unwrap_or((what, ""));
        let option = match kind {
            "udp" => "-Hlnu",
            "tcp" => "-Hlnt",
            "raw" => "-Hnwa",
            _ => bail!("{what:?} is nothing that can be listened on"),
        };
        let mut command = vec!["ip", "netns", "exec", &self.receiver, "ss", option];
        let source = format!("sport = :{port}");
        if !port.is_empty() {
            command.push(&source);
        }
        Ok(!run(&command)?.trim().is_empty())
    }

    /// Returns the offloads of the sender's end, for the record.
    pub(crate) fn offloads(&self) -> Result<Vec<String>> {
        let text = run(&["ip", "netns", "exec", &self.sender, "ethtool", "-k", DEVICE])?;
        let told = [
            "tcp-segmentation-offload",
            "generic-segmentation-offload",
            "generic-receive-offload",
            "tx-udp-segmentation",
            "rx-gro-list",
            "rx-udp-gro-forwarding",
            "tx-checksum-sctp",
        ];
        let line = |line: &&str| told.iter().any(|name| line.trim().starts_with(name));
        Ok(text.lines().filter(line).map(|line| line.trim().to_owned()).collect())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in [&self.sender, &self.receiver] {
            // If it was never created there is nothing to remove.
            let _ = remove(namespace);
        }
    }
}

/// Kills the programs in a namespace, and removes it.
fn remove(namespace: &str) -> Result<()> {
    left::end(&run(&["ip", "netns", "pids", namespace])?);
    run(&["ip", "netns", "delete", namespace]).map(|_| ())
}

/// Removes the namespaces of killed runs.
fn remove_left() -> Result<()> {
    let listed = run(&["ip", "netns", "list"])?;
    let names = || listed.lines().filter_map(|line| line.split_whitespace().next());
    for begin in NAMES {
        for name in left::left(names(), begin, left::is_running) {
            remove(name).with_context(|| format!("the namespace {name} of a run that was killed"))?;
        }
    }
    Ok(())
}

/// Runs a command to its end; returns its output.
pub(crate) fn run(words: &[&str]) -> Result<String> {
    let shown = words.join(" ");
    let (program, arguments) = words.split_first().context("an empty command")?;
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {shown}"))?;
    if !output.status.success() {
        bail!("{shown}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests;
