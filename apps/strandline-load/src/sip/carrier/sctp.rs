//! SCTP: one association for each source, from each local address, in UDP or directly on IP.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use strandline::encryption::Encryption;
use strandline::{
    Address, Association, AssociationConfig, ConnectError, Ended, ErrorCause, Peer, SendInfo, Stack,
    TrySendError,
};

use crate::sip::load::{Carrier, Load};
use crate::sip::out::Out;

use super::{by_source, bytes};

/// Maximum number of messages read at a time.
const BATCH: usize = 64;

/// Maximum number of INIT retransmissions: an unreachable server is detected after 15 s. With RFC 9260's
/// eight it would take four minutes without any output.
const INIT_RETRANS_MAX: u16 = 3;

/// Maximum number of SCTP ports that are tried for an association.
const ATTEMPTS: usize = 100;

/// The associations.
pub(in crate::sip) struct Sctp {
    associations: Vec<Rc<Association>>,
    /// The stacks, which are dropped with this value.
    _stacks: Vec<Stack>,
}

/// Sets up an association for each source, and returns the addresses.
pub(in crate::sip) async fn open(
    server: SocketAddr,
    encapsulation: u16,
    local: &[Address],
    sources: usize,
    heartbeat: Option<Duration>,
    encryption: Option<&Encryption>,
) -> Result<(Sctp, Vec<SocketAddr>)> {
    let peer = Peer::new(Address::of(server), server.port());
    let in_udp = encapsulation != 0;
    let peer = if in_udp { peer.encapsulation_port(encapsulation) } else { peer };
    let stacks = local
        .iter()
        .map(|ip| {
            let mut config = AssociationConfig::default();
            config.heartbeat_interval = heartbeat.or(config.heartbeat_interval);
            config.init_retrans_max = INIT_RETRANS_MAX;
            let stack = Stack::builder().association(config).mixed_trains(true);
            let stack = match encryption {
                Some(encryption) => stack.encryption(encryption.clone()),
                None => stack,
            };
            match in_udp {
                true => stack.udp(ip.with_port(0)).with_context(|| format!("opening a UDP socket at {ip}")),
                false => stack.raw(*ip).with_context(|| format!("opening SCTP over IP at {ip}")),
            }
        })
        .collect::<Result<Vec<_>>>()?;
    let (mut associations, mut addresses) = (Vec::new(), Vec::new());
    for (stack, ip) in stacks.iter().zip(local).cycle().take(sources) {
        let association = connect(stack, &peer).await;
        let association = association.with_context(|| match in_udp {
            true => format!("connecting to {server} over UDP port {encapsulation}"),
            false => format!("connecting to {server} over IP"),
        })?;
        let port = association.status().map_or(0, |status| status.local_port);
        addresses.push(ip.with_port(port));
        associations.push(Rc::new(association));
    }
    Ok((Sctp { associations, _stacks: stacks }, addresses))
}

/// Sets up an association from a free SCTP port. The server refuses one that it still has for an earlier
/// load, which was killed, from another UDP port: then another SCTP port serves.
pub(in crate::sip) async fn connect(stack: &Stack, peer: &Peer) -> Result<Association, ConnectError> {
    let mut attempts = 1;
    loop {
        match Association::connect(stack, peer).await {
            Err(ConnectError::Ended(ended)) if attempts < ATTEMPTS && is_taken(&ended) => attempts += 1,
            other => return other,
        }
    }
}

fn is_taken(ended: &Ended) -> bool {
    matches!(ended, Ended::PeerAborted { cause: ErrorCause::RestartWithNewEncapsulationPort, .. })
}

impl Sctp {
    /// Receives until the tasks are ended.
    pub(in crate::sip) fn serve(&self, load: &Rc<Load>) {
        for (source, association) in self.associations.iter().enumerate() {
            tokio::task::spawn_local(receive(Rc::clone(association), source, Rc::clone(load)));
        }
    }
}

impl Carrier for Sctp {
    fn end(&self) -> Vec<Rc<Association>> {
        self.associations.iter().for_each(|association| association.control().start_shutdown());
        self.associations.clone()
    }

    fn send(&self, out: &Out, _: &Load) {
        // Messages are unordered: none waits for another that was lost (RFC 4168 section 5.1).
        let info = SendInfo::default().unordered();
        for (source, messages) in by_source(out) {
            let Some(association) = self.associations.get(source) else { continue };
            for message in messages {
                let data = Bytes::copy_from_slice(bytes(out, message));
                // If there is no room, the server doesn't keep up: a message that can't be sent counts as
                // unanswered.
                match association.try_send_bytes(data, info) {
                    Ok(()) | Err(TrySendError::Full) => {}
                    Err(error) => tracing::debug!(%error, "sending over SCTP failed"),
                }
            }
        }
    }
}

async fn receive(association: Rc<Association>, source: usize, load: Rc<Load>) {
    let mut messages = Vec::with_capacity(BATCH);
    while association.recv_many(&mut messages, BATCH).await.is_ok_and(|count| count > 0) {
        load.with(|engine, now| {
            messages.drain(..).for_each(|message| engine.handle(now, source, &message.data));
        });
    }
    load.count_lost();
}
