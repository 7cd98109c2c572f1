//! What a gateway asks of its peer besides connections, on streams of their own: to listen there, and to report.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use strandline::{Association, RecvStream};
use strandline_tls::LogLimit;
use tokio::sync::watch;

use crate::clock::now;
use crate::config;
use crate::contexts::Context;
use crate::first_message::{first_bytes, reply};
use crate::health;
use crate::pace::{BACK_OFF_MAX, STEADY};
use crate::protocol::{Opening, Reason, Report};
use crate::relay::reason;
use crate::reverse_states::{ReverseRequest, ReverseState};

/// Attempts to let a peer listen after which the time between two grows, and that time.
const LISTEN_ATTEMPTS: u32 = 20;
const LISTEN_EVERY: Duration = Duration::from_millis(250);

/// Asks the peer to listen, for as long as the association lasts.
pub(crate) async fn request_listener(
    association: Association,
    reverse: config::Reverse,
    state: ReverseRequest,
    name: Arc<str>,
    [mut retired, mut left]: [watch::Receiver<bool>; 2],
) {
    let token = state.token();
    let request = async || {
        let (mut recv, mut send) =
            association.open_stream().await.map_err(|_| Reason::NoAssociation)?.into_split();
        let at = reverse.listen;
        let opening = if reverse.udp.is_some() {
            Opening::ListenUdp { at, token, has_states: true }
        } else {
            Opening::Listen { at, token, has_states: true }
        };
        send.send(opening.encode(&[]).into()).await.map_err(|_| Reason::NoAssociation)?;
        reply(&mut recv).await.map_err(reason)?;
        tracing::info!(peer = %name, at = %reverse.listen, to = %reverse.to, "the peer listens");
        Ok::<_, Reason>((recv, send))
    };
    let requesting = async {
        let (mut attempts, mut pause, mut reported) = (0, LISTEN_EVERY, None);
        let mut failures = LogLimit::default();
        loop {
            let begun = now();
            match request().await {
                // Both are held until the peer listens no more: it reloads, or ends.
                Ok((mut recv, _send)) => {
                    state.set(ReverseState::Listening);
                    follow(&mut recv, &state, &mut failures, (&name, reverse.listen)).await;
                    state.set(ReverseState::Waiting);
                    reported = None;
                }
                Err(Reason::NoAssociation) if association.status().is_none() => return,
                // An association of before may still listen there.
                Err(Reason::AddressInUse) if attempts < LISTEN_ATTEMPTS => {}
                Err(reason) if reported == Some(reason) => state.set(ReverseState::Refused(reason)),
                Err(reason) => {
                    state.set(ReverseState::Refused(reason));
                    reported = Some(reason);
                    let reason = refusal(reason, reverse.udp.is_some());
                    tracing::error!(peer = %name, at = %reverse.listen, %reason, "the peer does not listen: it is asked again");
                }
            }
            if now().saturating_duration_since(begun) >= STEADY {
                (attempts, pause) = (0, LISTEN_EVERY);
            }
            attempts += 1;
            if attempts > LISTEN_ATTEMPTS {
                pause = (pause * 2).min(BACK_OFF_MAX);
            }
            tokio::time::sleep(pause).await;
        }
    };
    tokio::select! {
        () = requesting => {}
        // The peer is not to listen any more.
        _ = retired.wait_for(|retired| *retired) => {}
        _ = left.wait_for(|left| *left) => {}
    }
}

/// Notes whether the peer's socket has failed, until the peer listens no more. The peer may send states as often as it
/// likes: only changes count, and the log has few of them.
async fn follow(
    recv: &mut RecvStream,
    state: &ReverseRequest,
    failures: &mut LogLimit,
    (name, at): (&str, SocketAddr),
) {
    let (mut has_failed, mut is_logged) = (false, false);
    while let Ok(message) = first_bytes(recv, 1).await {
        let fails = match message[..] {
            [0] => false,
            [1] => true,
            // Not a state that this version knows.
            _ => continue,
        };
        if std::mem::replace(&mut has_failed, fails) == fails {
            continue;
        }
        state.set(if fails { ReverseState::Failed } else { ReverseState::Listening });
        if !fails {
            if std::mem::take(&mut is_logged) {
                tracing::info!(peer = name, %at, "the peer listens again");
            }
        } else if let Some(unlogged) = failures.log() {
            is_logged = true;
            tracing::warn!(peer = name, %at, unlogged, "the peer's socket has failed: it accepts nothing");
        }
    }
}

/// Returns why a peer does not listen.
fn refusal(reason: Reason, is_udp: bool) -> String {
    match (reason, is_udp) {
        (Reason::NotAllowed, false) => {
            "the far gateway does not allow this address: see its --allow-listen".to_owned()
        }
        (Reason::NotAllowed, true) => {
            "the far gateway does not allow this address: see its --allow-listen-udp".to_owned()
        }
        (other, _) => other.to_string(),
    }
}

/// Has the peer report how its direction of an association does, until it ends. Older gateways refuse.
pub(crate) async fn request_reports(context: Arc<Context>) {
    let request = async || {
        let (mut recv, mut send) = context.association.open_stream().await.ok()?.into_split();
        send.send(Opening::Report.encode(&[]).into()).await.ok()?;
        reply(&mut recv).await.ok()?;
        while let Ok(message) = first_bytes(&mut recv, Report::LEN).await {
            if let Some(report) = Report::decode(&message) {
                context.set_down(health::reported(&report));
            }
        }
        Some(())
    };
    // Without reports only this side's direction counts.
    let _ = request().await;
}
