//! The message printed once the server is running.

use std::net::SocketAddr;

use strandline_output::outln;

use crate::service::Advertised;

/// The listening addresses and other facts to print.
pub(super) struct StartupMessage<'a> {
    pub(super) advertised: &'a [Advertised],
    /// The UDP ports that carry SCTP, for those that are SCTP in UDP.
    pub(super) carriers: &'a [Option<u16>],
    pub(super) users: usize,
    pub(super) processes: u8,
    /// The addresses of metrics and administration.
    pub(super) others: [(&'a str, Option<SocketAddr>); 2],
    pub(super) json: bool,
}

/// Prints the message.
pub(super) fn print(message: &StartupMessage<'_>) {
    let StartupMessage { advertised, carriers, users, others, .. } = message;
    if message.json {
        let one = |(one, carrier): (&Advertised, &Option<u16>)| {
            let (name, host, port) = (one.protocol.name(), one.name(), one.port);
            let carrier = carrier.map_or(String::new(), |port| format!(",\"carrier\":{port}"));
            format!("{{\"protocol\":\"{name}\",\"host\":\"{host}\",\"port\":{port}{carrier}}}")
        };
        let all: Vec<String> = advertised.iter().zip(carriers.iter()).map(one).collect();
        let other = |(name, address): &(&str, Option<SocketAddr>)| {
            address.map_or(String::new(), |address| format!(",\"{name}\":\"{address}\""))
        };
        let others: String = others.iter().map(other).collect();
        outln!("{{\"listening\":[{}],\"users\":{users}{others}}}", all.join(","));
        return;
    }
    let processes = match message.processes {
        0 | 1 => String::new(),
        count => format!(", {count} processes"),
    };
    outln!("SIP server (stop with SIGTERM or Ctrl-C); {users} users registered{processes}:");
    for (one, carrier) in advertised.iter().zip(carriers.iter()) {
        let (name, host, port) = (one.protocol.name().to_ascii_uppercase(), one.name(), one.port);
        let carrier = carrier.map_or(String::new(), |port| format!(", over UDP port {port}"));
        outln!("  {name:<5}{host} port {port}{carrier}");
    }
    for (name, address) in others.iter().filter_map(|(name, address)| Some((*name, (*address)?))) {
        match name {
            "metrics" => outln!("  live page at http://{address}/, metrics at http://{address}/metrics"),
            _ => {
                outln!("  administration: strandline sip admin --address {address} --token FILE status")
            }
        }
    }
}
