//! Set-ups one after another; each association ends before the next begins.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use strandline_proto::config::ExtensionsConfig;
use strandline_proto::endpoint::Endpoint;
use strandline_proto::event::{AssociationId, Datagram, Event};
use strandline_proto::time::Time;

use crate::world::{CLIENT, SEGMENTS, SERVER, World};
use crate::{Counts, begin};

const WARM_UP: usize = 20;

pub(crate) fn run(extensions: ExtensionsConfig, count: usize) -> Result<Counts> {
    let mut world = World::new(extensions)?;
    for _ in 0..WARM_UP {
        one(&mut world)?;
    }
    begin();
    for _ in 0..count {
        one(&mut world)?;
    }
    Ok(vec![("set-ups", count as u64)])
}

fn one(world: &mut World) -> Result<()> {
    let id = measured_set_up_begins(world)?;
    // INIT, INIT ACK, COOKIE ECHO, COOKIE ACK.
    for _ in 0..2 {
        let World { client, server, now, buffer } = world;
        measured_set_up_goes_on(client, server, CLIENT, *now, buffer);
        measured_set_up_goes_on(server, client, SERVER, *now, buffer);
        world.step();
    }
    let event = world.client.poll_event();
    ensure!(matches!(event, Some((_, Event::Established { .. }))), "the client has {event:?}");
    let (accepted, _) = world.server.poll_event().context("the server has no association")?;
    world.client.abort(world.now, id, Default::default())?;
    world.exchange();
    while world.client.poll_event().is_some() || world.server.poll_event().is_some() {}
    world.client.release(id);
    world.server.release(accepted);
    ensure!(world.client.association_count() + world.server.association_count() == 0, "not all ended");
    world.step();
    Ok(())
}

#[inline(never)]
fn measured_set_up_begins(world: &mut World) -> Result<AssociationId> {
    world.connect()
}

#[inline(never)]
fn measured_set_up_goes_on(
    from: &mut Endpoint,
    to: &mut Endpoint,
    source: SocketAddr,
    now: Time,
    buffer: &mut [u8],
) {
    while let Some(transmit) = from.poll_transmit(now, buffer, SEGMENTS) {
        for bytes in buffer[..transmit.len].chunks(transmit.segment_size) {
            to.handle_datagram(now, Datagram { source, destination: None, bytes, ecn: 0 });
        }
    }
}
