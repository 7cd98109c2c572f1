//! UDP forwards: a flow for each client.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::Result;
use strandline_ops::not_listening;
use tokio::net::UdpSocket;
use tokio::sync::watch;

use super::{beside, closed};
use crate::client_socket::{self, ClientSocket};
use crate::config::UdpForward;
use crate::flows::idle;
use crate::gateway::Gateway;
use crate::link::Link;
use crate::link_users::{SocketUser, User};
use crate::protocol::Opening;
use crate::registry::{CloseReason, ConnectionGuard, ConnectionInfo};
use crate::udp_clients::{self, ClientFlow, LAST_ANSWERS, NewClient};

/// Where the datagrams of new clients go. A reload may change it.
#[derive(Debug)]
pub(crate) struct UdpTarget {
    pub(crate) forward: Arc<UdpForward>,
    pub(crate) link: Arc<Link>,
    /// As long as clients may come with this target.
    pub(crate) _user: SocketUser,
}

/// Listens for a UDP forward. Sockets that are `leaving` may have its address.
pub(crate) fn bind_udp(forward: &UdpForward, leaving: &[OwnedFd]) -> Result<UdpSocket> {
    let at = forward.listen;
    let bound = beside(at.port(), leaving, |shares_port| client_socket::bind(at, shares_port));
    bound.map_err(|error| not_listening(&format!("listening on UDP {at} for forward"), error))
}

/// Passes datagrams until the sender of the target is dropped.
pub(crate) async fn serve_udp(
    socket: Arc<ClientSocket>,
    mut target: watch::Receiver<UdpTarget>,
    gateway: Arc<Gateway>,
) {
    let targets = target.clone();
    let may_serve = |client: SocketAddr| targets.borrow().forward.from.include(client.ip());
    let most = || gateway.settings().limits.flows_max();
    // One for all sockets of the peer. A reload that replaces the peer begins anew.
    let limit = || Arc::clone(&targets.borrow().link.flow_limit);
    let begin = |client: NewClient| {
        // Held until the flow counts for its link.
        let target = targets.borrow();
        let UdpTarget { forward, link, .. } = &*target;
        let tracked = gateway.registry.begin(ConnectionInfo {
            listener: "udp",
            peer: Arc::clone(&link.name),
            client: Some(client.address),
            destination: forward.to.to_string(),
            is_near: true,
        });
        let entry = Arc::clone(&tracked.entry);
        let (forward, user) = (Arc::clone(forward), link.users.user());
        tokio::spawn(run(Arc::clone(&socket), forward, Arc::clone(link), client, tracked, user));
        entry
    };
    tokio::select! {
        () = udp_clients::serve(&socket, (limit, most), &gateway.udp_lost, may_serve, begin) => {}
        () = closed(&mut target) => {}
    }
}

/// Passes the datagrams of a client until its flow ends.
async fn run(
    socket: Arc<ClientSocket>,
    forward: Arc<UdpForward>,
    link: Arc<Link>,
    client: NewClient,
    mut tracked: ConnectionGuard,
    user: User,
) {
    let passing = async |client: NewClient| {
        let (association, stream, _used) = link.open_first().await.map_err(CloseReason::Failed)?;
        let (token, flows) = (link.next_token(), Arc::clone(&link.flows));
        let opening = Opening::Flow { to: forward.to.clone(), source: Some(client.address), token };
        let flow = ClientFlow { association, flows, token, socket, times: forward.times };
        flow.pass(stream, opening, client, &tracked, idle(&tracked.entry, LAST_ANSWERS)).await
    };
    let ended = client.run(passing).await;
    tracked.set_end(ended.map_or_else(|end| end, |()| CloseReason::Complete));
    drop(user);
}
