//! Messages from the client to the server, as fast as possible.

use anyhow::{Context, Result};
use strandline_proto::config::ExtensionsConfig;
use strandline_proto::endpoint::Endpoint;
use strandline_proto::event::{AssociationId, Datagram, SendInfo};
use strandline_proto::time::Time;

use crate::world::{CLIENT, SEGMENTS, SERVER, World};
use crate::{Counts, begin};

/// Number of bytes after which the window and the path MTU have grown.
const WARM_UP_BYTES: usize = 8 << 20;

#[derive(Debug, Default)]
struct Tally {
    messages: u64,
    packets: u64,
    sacks: u64,
}

pub(crate) fn run(message_bytes: usize, count: usize) -> Result<Counts> {
    let mut world = World::new(ExtensionsConfig::default())?;
    let id = world.connect()?;
    while world.exchange() {
        world.step();
    }
    let accepted = world.server.poll_event().context("no association came to be")?.0;
    let data: Vec<u8> = (0..message_bytes).map(|i| i as u8).collect();
    transfer(&mut world, id, accepted, &data, WARM_UP_BYTES / message_bytes.max(1))?;
    begin();
    let tally = transfer(&mut world, id, accepted, &data, count)?;
    Ok(vec![("messages", tally.messages), ("packets", tally.packets), ("sacks", tally.sacks)])
}

fn transfer(
    world: &mut World,
    id: AssociationId,
    accepted: AssociationId,
    data: &[u8],
    count: usize,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut left = count;
    let mut idle = 0;
    while tally.messages < count as u64 {
        let World { client, server, now, buffer } = world;
        left -= measured_sender_gives(client, *now, id, data, left);
        while let Some((len, segment)) = measured_sender_transmits(client, *now, buffer) {
            tally.packets += len.div_ceil(segment) as u64;
            measured_receiver_takes(server, *now, &buffer[..len], segment);
        }
        let before = tally.messages;
        tally.messages += measured_receiver_reads(server, *now, accepted);
        while let Some((len, segment)) = measured_receiver_answers(server, *now, buffer) {
            tally.sacks += len.div_ceil(segment) as u64;
            measured_sack_taken(client, *now, &buffer[..len], segment);
        }
        idle = if tally.messages == before { idle + 1 } else { 0 };
        anyhow::ensure!(idle < 1_000_000, "nothing moves");
        world.step();
    }
    Ok(tally)
}

/// Sends messages until none is left or there is no room for them. Returns how many were accepted.
#[inline(never)]
fn measured_sender_gives(
    client: &mut Endpoint,
    now: Time,
    id: AssociationId,
    data: &[u8],
    count: usize,
) -> usize {
    for given in 0..count {
        if client.send_slice(now, id, SendInfo::default(), data).is_err() {
            return given;
        }
    }
    count
}

/// Returns the length of a burst, and of each of its packets, in bytes.
#[inline(never)]
fn measured_sender_transmits(client: &mut Endpoint, now: Time, buffer: &mut [u8]) -> Option<(usize, usize)> {
    // Keeps the compiler from merging this function with the identical one of the other side.
    std::hint::black_box("sender");
    let transmit = client.poll_transmit(now, buffer, SEGMENTS)?;
    Some((transmit.len, transmit.segment_size))
}

#[inline(never)]
fn measured_receiver_takes(server: &mut Endpoint, now: Time, burst: &[u8], segment: usize) {
    for bytes in burst.chunks(segment) {
        server.handle_datagram(now, Datagram { source: CLIENT, destination: None, bytes, ecn: 0 });
    }
    while server.poll_event().is_some() {}
}

/// Returns the number of whole messages.
#[inline(never)]
fn measured_receiver_reads(server: &mut Endpoint, now: Time, id: AssociationId) -> u64 {
    let mut count = 0;
    while let Some(message) = server.recv(now, id) {
        std::hint::black_box(&message.data);
        count += 1;
    }
    count
}

#[inline(never)]
fn measured_receiver_answers(server: &mut Endpoint, now: Time, buffer: &mut [u8]) -> Option<(usize, usize)> {
    let transmit = server.poll_transmit(now, buffer, SEGMENTS)?;
    Some((transmit.len, transmit.segment_size))
}

#[inline(never)]
fn measured_sack_taken(client: &mut Endpoint, now: Time, burst: &[u8], segment: usize) {
    std::hint::black_box("sack");
    for bytes in burst.chunks(segment) {
        client.handle_datagram(now, Datagram { source: SERVER, destination: None, bytes, ecn: 0 });
    }
    while client.poll_event().is_some() {}
}
