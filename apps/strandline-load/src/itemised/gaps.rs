//! Creates real gaps: one segment never arrives, and a number of later ones do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use strandline::memory::{Fate, Network, Passing};
use strandline::{Association, Endpoint, SendInfo};

use super::report::{Account, Gap};
use super::{CLIENT, PORT, SERVER, TIMEOUT, connect, stack};

/// Type of DATA chunks (RFC 9260 section 3.3.1).
const DATA: u8 = 0;

/// Length of the common header in bytes.
const HEADER: usize = 12;

/// Maximum number of segments in flight: few enough for every congestion window.
const AT_ONCE: u16 = 32;

/// The network's treatment of the client's DATA.
#[derive(Debug, Default)]
struct Loss {
    /// Whether the next new TSN is to be lost.
    armed: bool,
    /// The lost TSN, whose retransmissions are dropped as well.
    lost: Option<u32>,
    /// The highest TSN that was forwarded.
    highest: Option<u32>,
}

/// Delivers `segments` beyond a missing one, all of them unordered messages, and measures the receiving
/// association while that one is missing.
pub(super) async fn measure(segments: u16) -> Result<Gap> {
    let loss = Arc::new(Mutex::new(Loss::default()));
    let judge = Arc::clone(&loss);
    let network = Network::builder().judge(move |passing| lock(&judge).fate(passing)).build();
    let (here, there) = (stack(&network, CLIENT)?, stack(&network, SERVER)?);
    let server = Endpoint::bind(&there, PORT)?;
    let client = connect(&here).await?;
    client.send(b"first", SendInfo::default()).await?;
    let (id, _) = server.recv_from().await?;
    if segments > 0 {
        let filling = tokio::time::timeout(TIMEOUT / 2, fill(&client, &server, &loss, segments));
        filling
            .await
            .with_context(|| format!("waiting for {segments} segments beyond the missing one"))??;
    }
    // While a TSN is missing nothing is released, so waiting matters only for the idle association.
    if segments == 0 {
        tokio::time::sleep(super::SETTLE).await;
    }
    let report = server.control(id)?.memory().context("the association has ended")?;
    let beyond = {
        let loss = lock(&loss);
        loss.lost.zip(loss.highest).map_or(0, |(lost, highest)| highest.wrapping_sub(lost))
    };
    if beyond != u32::from(segments) {
        bail!("{beyond} segments arrived beyond the missing one instead of {segments}");
    }
    Ok(Gap::new(segments, &Account::new(&report)))
}

async fn fill(client: &Association, server: &Endpoint, loss: &Mutex<Loss>, segments: u16) -> Result<()> {
    let unordered = SendInfo::default().unordered();
    lock(loss).armed = true;
    client.send(b"lost", unordered).await?;
    while lock(loss).lost.is_none() {
        tokio::task::yield_now().await;
    }
    let mut sent = 0;
    while sent < segments {
        let now = AT_ONCE.min(segments - sent);
        for _ in 0..now {
            client.send(b"come", unordered).await?;
        }
        for _ in 0..now {
            let (_, message) = server.recv_from().await?;
            if message.data != "come" {
                bail!("the segment to be lost was delivered");
            }
        }
        sent += now;
    }
    Ok(())
}

impl Loss {
    fn fate(&mut self, passing: &Passing<'_>) -> Fate {
        if passing.source != CLIENT {
            return Fate::Deliver;
        }
        let mut highest = self.highest;
        for tsn in tsns(passing.bytes) {
            if self.armed && self.lost.is_none() {
                self.lost = Some(tsn);
            }
            if self.lost == Some(tsn) {
                return Fate::Drop;
            }
            if self.armed && highest.is_none_or(|highest| tsn.wrapping_sub(highest) < 1 << 31) {
                highest = Some(tsn);
            }
        }
        self.highest = highest;
        Fate::Deliver
    }
}

/// Returns the TSNs of a packet's DATA chunks.
fn tsns(packet: &[u8]) -> impl Iterator<Item = u32> {
    let mut rest = packet.get(HEADER..).unwrap_or_default();
    std::iter::from_fn(move || {
        let &[kind, _, high, low, ..] = rest else { return None };
        let length = usize::from(u16::from_be_bytes([high, low])).max(4);
        let tsn = rest.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind == DATA).then_some(tsn).flatten())
    })
    .flatten()
}

fn lock(loss: &Mutex<Loss>) -> MutexGuard<'_, Loss> {
    loss.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
