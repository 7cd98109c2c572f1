//! A TUN device for each end of each path, and its kernel counters.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use tun_rs::{DeviceBuilder, SyncDevice};

use super::command::run;
use super::namespace::Namespaces;
use super::topology::{Side, Topology};

/// Packets that the kernel queues for the emulator. It drops packets beyond this limit, so the limit is far
/// above the burst of a sender in slow start.
const KERNEL_QUEUE_PACKETS: u32 = 16_384;

/// The two devices of a path.
pub struct Devices {
    /// The device of the left side: sends and receives the packets of its programs.
    pub left: SyncDevice,
    /// What programs on the right send, and what they receive.
    pub right: SyncDevice,
}

/// Returns a device's name within its namespace; paths count from 1.
fn device_name(path: usize) -> String {
    format!("path{path}")
}

/// Creates the devices of all paths with their addresses, and configures both sides.
///
/// # Errors
/// If the kernel or container has no TUN, or no such congestion control, or `ip` or `tc` failed.
pub fn create(namespaces: &Namespaces, topology: &Topology) -> Result<Vec<Devices>> {
    let left = create_side(namespaces, topology, Side::Left)?;
    let right = create_side(namespaces, topology, Side::Right)?;
    Ok(left.into_iter().zip(right).map(|(left, right)| Devices { left, right }).collect())
}

fn create_side(namespaces: &Namespaces, topology: &Topology, side: Side) -> Result<Vec<SyncDevice>> {
    let paths = 1..=topology.paths.len();
    let (devices, congctl) = namespaces.enter(side, || {
        let congctl = set_parameters(topology)?;
        let devices = paths.clone().map(open).collect::<Result<Vec<_>>>()?;
        Ok((devices, congctl))
    })?;
    let mut commands = "link set lo up\n".to_owned();
    let mut queues = String::new();
    for path in paths {
        let name = device_name(path);
        let (mtu, length) = (topology.mtu, KERNEL_QUEUE_PACKETS);
        commands += &format!("link set {name} mtu {mtu} txqueuelen {length} multicast off\n");
        commands += &format!("addr add {}/24 dev {name}\n", side.ipv4(path));
        if topology.ipv6 {
            commands += &format!("addr add {}/64 dev {name} nodad\n", side.ipv6(path));
        }
        commands += &format!("link set {name} up\n");
        if congctl == CongestionControl::ByRoute {
            commands += &routes(topology, side, path);
        }
        // Replace the default queueing discipline: it could pace packets, or drop them where no counter of the
        // device shows it.
        queues += &format!("qdisc replace dev {name} root noqueue\n");
    }
    let namespace = namespaces.namespace(side);
    run("ip", &["-n", &namespace, "-batch", "-"], &commands)?;
    run("tc", &["-n", &namespace, "-batch", "-"], &queues)?;
    Ok(devices)
}

/// Returns the routes of a path, each with the congestion control of TCP connections over it.
fn routes(topology: &Topology, side: Side, path: usize) -> String {
    let (name, tcp, source) = (device_name(path), &topology.tcp, side.ipv4(path));
    let mut commands = format!(
        "route replace 10.0.{path}.0/24 dev {name} proto kernel scope link src {source} congctl {tcp}\n"
    );
    if topology.ipv6 {
        commands += &format!("-6 route replace fd00:0:0:{path:x}::/64 dev {name} metric 256 congctl {tcp}\n");
    }
    commands
}

fn open(path: usize) -> Result<SyncDevice> {
    // The name is free because the namespace is new.
    let builder = DeviceBuilder::new().name(device_name(path)).enable(false);
    let device = builder.build_sync().map_err(|error| {
        if Path::new("/dev/net/tun").exists() {
            anyhow!(error).context(
                "opening /dev/net/tun (in a container: add --cap-add NET_ADMIN --device /dev/net/tun)",
            )
        } else {
            anyhow!(
                "/dev/net/tun is missing: run 'modprobe tun', or in a container add --device /dev/net/tun"
            )
        }
    })?;
    device.set_nonblocking(true)?;
    Ok(device)
}

/// How the TCP congestion control of a namespace was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CongestionControl {
    /// As the default of the namespace; programs may set another for a socket.
    Default,
    /// On the routes, because the kernel doesn't allow this default in a namespace
    /// (tcp_allowed_congestion_control).
    ByRoute,
}

/// Sets kernel parameters in the namespace of the current thread.
///
/// # Errors
/// If there is no such congestion control, or a parameter can't be set.
pub fn set_parameters(topology: &Topology) -> Result<CongestionControl> {
    let ipv4 = Path::new("/proc/sys/net/ipv4");
    let known = fs::read_to_string(ipv4.join("tcp_available_congestion_control")).unwrap_or_default();
    let tcp = &topology.tcp;
    let mut control = CongestionControl::Default;
    if fs::write(ipv4.join("tcp_congestion_control"), tcp).is_err() {
        if !known.split_whitespace().any(|name| name == tcp) {
            let known = known.trim().replace(' ', ", ");
            bail!("--tcp {tcp}: this kernel has {known} (others may need 'modprobe tcp_{tcp}')");
        }
        control = CongestionControl::ByRoute;
    }
    let must = [
        // A bandwidth-delay product of 1 Gbit/s and 200 ms is 25 MB; buffers are twice that and more.
        ("ipv4/tcp_rmem", "4096 131072 100000000"),
        ("ipv4/tcp_wmem", "4096 65536 100000000"),
        // Runs must not depend on earlier runs.
        ("ipv4/tcp_no_metrics_save", "1"),
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/default/rp_filter", "0"),
    ];
    for (name, value) in must {
        fs::write(Path::new("/proc/sys/net").join(name), value).with_context(|| format!("setting {name}"))?;
    }
    // These files are missing if the kernel has no IPv6. Without IPv6, a device sends no packets of its own.
    let ipv6_off = if topology.ipv6 { "0" } else { "1" };
    for name in ["ipv6/conf/all/disable_ipv6", "ipv6/conf/default/disable_ipv6"] {
        let path = Path::new("/proc/sys/net").join(name);
        if path.exists() {
            fs::write(path, ipv6_off)?;
        }
    }
    if topology.ipv6 {
        for (name, value) in [("addr_gen_mode", "1"), ("router_solicitations", "0"), ("accept_ra", "0")] {
            fs::write(Path::new("/proc/sys/net/ipv6/conf/default").join(name), value)
                .with_context(|| format!("setting {name}"))?;
        }
    }
    Ok(control)
}

impl CongestionControl {
    /// Returns whether the routes have to name the congestion control.
    #[must_use]
    pub fn is_by_route(self) -> bool {
        self == Self::ByRoute
    }
}

/// Kernel counters of one device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct KernelCounters {
    /// Packets from programs that never reached the emulator because the device's queue was full.
    pub dropped_to_emulator: u64,
    /// Packets from the emulator that the kernel refused.
    pub dropped_from_emulator: u64,
    /// Errors of the device in both directions.
    pub errors: u64,
}

impl KernelCounters {
    /// Reads the counters of all paths' devices on a side.
    ///
    /// # Errors
    /// If the counters can't be read.
    pub fn read(namespaces: &Namespaces, side: Side) -> Result<Vec<Self>> {
        let path = "/proc/thread-self/net/dev";
        let text = namespaces.enter(side, || fs::read_to_string(path).with_context(|| path.to_owned()))?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Vec<Self> {
        let find = |path: usize| {
            let name = device_name(path);
            let mut lines = text.lines().filter_map(|line| line.trim().split_once(':'));
            let (_, numbers) = lines.find(|(device, _)| *device == name)?;
            let numbers: Vec<u64> =
                numbers.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
            // The fields are bytes, packets, errors, dropped and four more for receiving, then the same for
            // sending.
            let at = |index: usize| numbers.get(index).copied().unwrap_or_default();
            let errors = at(2) + at(10);
            Some(Self { dropped_to_emulator: at(11), dropped_from_emulator: at(3), errors })
        };
        (1..).map_while(find).collect()
    }

    /// Returns the increase since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            dropped_to_emulator: self.dropped_to_emulator.saturating_sub(before.dropped_to_emulator),
            dropped_from_emulator: self.dropped_from_emulator.saturating_sub(before.dropped_from_emulator),
            errors: self.errors.saturating_sub(before.errors),
        }
    }
}

#[cfg(test)]
mod tests;
