//! In which order servers are tried (RFC 2782, "Usage rules").

use core::net::SocketAddr;

use crate::transaction::Protocol;

use super::walk::Server;

/// Servers by priority; those of one priority by chance, as likely first as their weight says. `random` gives a number from 0
/// to its argument, both included, each as likely.
pub fn in_order(servers: &[Server], mut random: impl FnMut(u32) -> u32) -> Vec<(Protocol, SocketAddr)> {
    let mut sorted: Vec<&Server> = servers.iter().collect();
    // Those without weight first: so they are chosen as well, seldom.
    sorted.sort_by_key(|server| (server.priority, server.weight != 0));
    let mut order = Vec::with_capacity(servers.len());
    for group in sorted.chunk_by(|one, other| one.priority == other.priority) {
        let mut left = group.to_vec();
        while !left.is_empty() {
            let sum: u32 = left.iter().map(|server| u32::from(server.weight)).sum();
            let chosen = random(sum);
            let mut running = 0;
            let place = left.iter().position(|server| {
                running += u32::from(server.weight);
                running >= chosen
            });
            let server = left.remove(place.unwrap_or(0));
            order.extend(server.addresses.iter().map(|address| (server.protocol, *address)));
        }
    }
    order
}

#[cfg(test)]
mod tests;
