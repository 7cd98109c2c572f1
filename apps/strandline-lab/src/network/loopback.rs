//! A network that is only a loopback interface, in a namespace of its own, for programs that do everything on
//! one machine. There the plan's congestion control applies to every TCP connection of every program; on the
//! system's own loopback interface it is the system's.

use std::fmt::Write;

use anyhow::Result;

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
    run("ip", &["-n", &namespaces.namespace(SIDE), "-batch", "-"], &commands)?;
    Ok(namespaces)
}
