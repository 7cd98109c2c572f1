//! A network that is only a loopback interface, in a namespace of its own, for programs that do everything on
//! one machine. There the plan's congestion control applies to every TCP connection of every program; on the
//! system's own loopback interface it is the system's.

use std::fmt::Write;

use anyhow::{Result, anyhow};

use crate::netem::command::run;
use crate::netem::device::set_parameters;
use crate::netem::namespace::Namespaces;
use crate::netem::topology::Side;

use super::plan::NetworkPlan;

/// The side whose namespace holds both sides.
pub const SIDE: Side = Side::Left;

/// Creates the namespace. Both sides' addresses are on the loopback interface as well.
///
/// # Errors
/// If the user is not root, there is no such congestion control, or `ip` failed.
pub fn create(name: &str, plan: &NetworkPlan) -> Result<Namespaces> {
    let namespaces = Namespaces::create(name)?;
    let by_route = namespaces.enter(SIDE, || set_parameters(&plan.topology()))?.is_by_route();
    let own = Side::BOTH.map(|side| side.ipv4(1).to_string());
    let mut commands = format!("link set lo mtu {} up\n", plan.mtu());
    for address in &own {
        // Writing to a string doesn't fail.
        let _ = writeln!(commands, "addr add {address}/32 dev lo");
    }
    if by_route {
        let [left, right] = &own;
        for (to, from) in
            [("127.0.0.0/8", "127.0.0.1"), ("127.0.0.1", "127.0.0.1"), (left, left), (right, right)]
        {
            let _ = writeln!(
                commands,
                "route replace local {to} dev lo table local proto kernel scope host src {from} congctl {}",
                plan.tcp()
            );
        }
    }
    let namespace = namespaces.namespace(SIDE);
    run("ip", &["-n", &namespace, "-batch", "-"], &commands)?;
    if let Some(every) = plan.loss_every().map_err(|wrong| anyhow!(wrong))? {
        drop_packets(&namespace, every)?;
    }
    Ok(namespaces)
}

/// Drops every so many IP packets, as they arrive: where they leave, the sender would learn of it. Packets of both
/// directions and all protocols are in one count; bursts are segmented so that it is packets that are counted.
fn drop_packets(namespace: &str, every: u32) -> Result<()> {
    run("ethtool", &["--version"], "")?;
    let inside = ["netns", "exec", namespace];
    let offloads =
        ["ethtool", "-K", "lo", "tso", "off", "gso", "off", "gro", "off", "tx-udp-segmentation", "off"];
    run("ip", &[inside.as_slice(), &offloads].concat(), "")?;
    if every == 0 {
        return Ok(());
    }
    run("iptables", &["--version"], "")?;
    let (every, last) = (every.to_string(), (every - 1).to_string());
    let rule = ["iptables", "-A", "INPUT", "-m", "statistic", "--mode", "nth", "--every", &every];
    let what = ["--packet", &last, "-j", "DROP"];
    run("ip", &[inside.as_slice(), &rule, &what].concat(), "")?;
    Ok(())
}
