//! A pair of virtual Ethernet devices between two namespaces.

use anyhow::Result;

use crate::netem::command::run;
use crate::netem::device::set_parameters;
use crate::netem::namespace::Namespaces;
use crate::netem::topology::Side;

use super::plan::NetworkPlan;

const DEVICE: &str = "veth0";

/// Creates the namespaces and connects them.
///
/// # Errors
/// If the user is not root, a program is missing, or `ip` or `ethtool` failed.
pub fn create(name: &str, plan: &NetworkPlan) -> Result<Namespaces> {
    let namespaces = Namespaces::create(name)?;
    let [left, right] = Side::BOTH.map(|side| namespaces.namespace(side));
    run(
        "ip",
        &["-n", &left, "link", "add", DEVICE, "type", "veth", "peer", "name", DEVICE, "netns", &right],
        "",
    )?;
    let topology = plan.topology();
    for side in Side::BOTH {
        let by_route = namespaces.enter(side, || set_parameters(&topology))?.is_by_route();
        let (mtu, address, tcp) = (plan.mtu(), side.ipv4(1), plan.tcp());
        let mut commands =
            format!("link set lo up\nlink set {DEVICE} mtu {mtu} up\naddr add {address}/24 dev {DEVICE}\n");
        if by_route {
            commands += &format!(
                "route replace 10.0.1.0/24 dev {DEVICE} proto kernel scope link src {address} congctl {tcp}\n"
            );
        }
        let namespace = namespaces.namespace(side);
        run("ip", &["-n", &namespace, "-batch", "-"], &commands)?;
        let state = if plan.offloads { "on" } else { "off" };
        // Receive offload is off by default with veth. UDP segmentation has its own switch and is the
        // user-space equivalent of TSO, so it is switched together with it.
        let switches = ["tso", "gso", "gro", "tx-udp-segmentation"];
        let mut words = vec!["netns", "exec", &namespace, "ethtool", "-K", DEVICE];
        words.extend(switches.iter().flat_map(|switch| [*switch, state]));
        run("ethtool", &["--version"], "")?;
        run("ip", &words, "")?;
    }
    Ok(namespaces)
}
