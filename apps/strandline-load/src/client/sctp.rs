//! SCTP clients, over UDP encapsulation or raw IP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use strandline::{
    Address, Association, AssociationConfig, EndpointConfig, OutgoingPorts, Peer, RawOptions, SendInfo,
    Stack, StackBuilder, StreamId,
};

use super::{Watch, observer};
use crate::exchange::Exchange;
use crate::job::{Encapsulation, Job};
use crate::trace::Steps;

/// Ports of the paper's clients (appendix D.2); each holds one association with the server.
const LOCAL_PORTS: (u16, u16) = (10_000, 65_535);

/// Number of consecutive ports reserved on raw IP. Below the dynamic ports there is room for four such
/// blocks.
const RAW_PORTS: u16 = 8192;
const RAW_WITHIN: RangeInclusive<u16> = 16_384..=49_151;

/// Maximum time of the graceful end of the client's associations.
const CLOSING_MAX: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct SctpClient {
    stack: Stack,
    peer: Peer,
    watch: Watch,
}

impl SctpClient {
    pub(crate) fn new(job: &Job) -> Result<Self> {
        let watch = observer(job)?;
        let association = AssociationConfig {
            // As in the paper's measurement (section 5), idle associations send nothing.
            heartbeat_interval: None,
            outbound_streams: 16,
            inbound_streams_max: 16,
            ..AssociationConfig::default()
        };
        let config = EndpointConfig {
            association: Arc::new(association),
            ephemeral_ports: if own_address(job).is_some() { LOCAL_PORTS } else { own_ports(job) },
            ..EndpointConfig::default()
        };
        let mut builder = Stack::builder().config(config);
        if watch.is_needed() {
            builder = builder.observer(Arc::new(watch.clone()));
        }
        let stack = Self::stack(builder, job)?;
        let peer = Peer::new(Address::of(job.server), job.server.port());
        let peer = match job.encapsulation {
            Encapsulation::Udp(port) => peer.encapsulation_port(port),
            Encapsulation::Raw => peer,
        };
        Ok(Self { stack, peer, watch })
    }

    fn stack(builder: StackBuilder, job: &Job) -> Result<Stack> {
        let any: IpAddr =
            if job.server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        match job.encapsulation {
            Encapsulation::Udp(_) => {
                let local = own_address(job).unwrap_or(any);
                builder.udp(SocketAddr::new(local, 0)).context("opening the client's UDP socket")
            }
            Encapsulation::Raw => {
                // Every raw socket of the host receives loopback packets, so each client needs its own
                // address.
                let local = if job.server.ip().is_loopback() { job.server.ip() } else { any };
                let outgoing = OutgoingPorts { count: RAW_PORTS, within: RAW_WITHIN };
                let raw = builder.raw_with(local, RawOptions::default(), outgoing);
                raw.context("opening the client's raw IP socket")
            }
        }
    }

    /// Starts a set-up; data sent at once goes with the COOKIE ECHO.
    pub(crate) fn start(&self) -> Result<Association> {
        Ok(Association::start(&self.stack, &self.peer, 0, None)?)
    }

    pub(crate) async fn connect(&self) -> Result<Association> {
        let association = self.start()?;
        association.established().await?;
        Ok(association)
    }

    /// Waits for the graceful end of all associations, up to a limit.
    pub(crate) async fn let_go(&self) {
        let _ = tokio::time::timeout(CLOSING_MAX, self.stack.wait_idle()).await;
    }

    /// Returns the observations, and completes the capture.
    pub(crate) fn finish(&self) -> Result<Steps> {
        if let Some(capture) = &self.watch.capture {
            capture.flush().context("writing the capture")?;
        }
        Ok(self.watch.steps.as_ref().map(|steps| steps.take()).unwrap_or_default())
    }
}

/// Returns the address of one of several client processes on 127.0.0.0/8, where each can have its own.
///
/// A server identifies associations by addresses and SCTP ports, not by UDP ports (RFC 6951 section 5.1:
/// those may change on the way). Two processes with the same address and port would be one peer that
/// restarts.
fn own_address(job: &Job) -> Option<IpAddr> {
    let number = u32::try_from(job.number).ok()?;
    match job.server.ip() {
        IpAddr::V4(server) if server.is_loopback() && job.clients > 1 => {
            Some(Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST).checked_add(1 + number)?).into())
        }
        _ => None,
    }
}

/// Returns the ports of one of several client processes that share an address; no two share a port.
fn own_ports(job: &Job) -> (u16, u16) {
    let (first, last) = LOCAL_PORTS;
    let all = u64::from(last - first) + 1;
    let clients = job.clients.clamp(1, all);
    let number = job.number % clients;
    let begin = |number: u64| first + u16::try_from(all * number / clients).unwrap_or(last - first);
    (begin(number), if number + 1 == clients { last } else { begin(number + 1) - 1 })
}

/// Sends a message and waits for the answer.
pub(crate) async fn transact(association: &Association, exchange: &Exchange) -> Result<()> {
    let info = SendInfo::on(StreamId(0));
    for piece in exchange.pieces() {
        association.send_bytes(piece, info).await?;
    }
    let mut received = 0;
    loop {
        let Some(part) = association.recv().await? else { bail!("the server shut down") };
        received += part.data.len();
        if exchange.is_whole(received, &part.data)? {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
