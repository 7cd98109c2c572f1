//! The order in which servers are tried (RFC 2782, "Usage rules").

use core::net::SocketAddr;

use crate::transaction::Protocol;

use super::walk::Server;

/// Orders servers by priority, and at random within a priority, in proportion to their weights. `random`
/// returns a uniform number from 0 to its argument, inclusive.
pub fn in_order(servers: &[Server], mut random: impl FnMut(u32) -> u32) -> Vec<(Protocol, SocketAddr)> {
    let mut sorted: Vec<&Server> = servers.iter().collect();
    // Servers without weight go first, so that they are chosen occasionally.
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
