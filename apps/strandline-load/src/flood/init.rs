//! The packets of a flood: an INIT as this stack sends it, each with its own ports, tag and TSN.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use strandline::memory::Network;
use strandline::{Association, ObservedPacket, PacketObserver, Stack};

/// Offsets of the fields of a packet that starts with an INIT (RFC 9260 sections 3.1 and 3.3.2).
const SOURCE_PORT: usize = 0;
const CHECKSUM: usize = 8;
const INITIATE_TAG: usize = 16;
const INITIAL_TSN: usize = 28;

/// The lowest SCTP source port: above the well-known ports (RFC 6335 section 6).
pub(super) const PORTS_MIN: u16 = 1024;
/// Number of source ports that are used in turn.
const PORTS: u32 = 64_000;

/// Packets of one size, each different from the last.
#[derive(Debug, Clone)]
pub(super) struct Packets {
    template: Vec<u8>,
    plain: bool,
    number: u32,
}

/// Captures the first packet that is sent.
#[derive(Debug, Default)]
struct First(Mutex<Option<Vec<u8>>>);

impl PacketObserver for First {
    fn packet(&self, packet: &ObservedPacket<'_>) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| packet.bytes.to_vec());
    }
}

impl Packets {
    /// Creates INITs to an SCTP port or, if `plain`, datagrams of the same size that aren't SCTP.
    ///
    /// # Errors
    /// If no INIT could be made: the stack in memory refused.
    pub(super) fn new(port: u16, plain: bool) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let template = runtime.block_on(capture(port))?;
        Ok(Self { template, plain, number: 0 })
    }

    /// Returns the length of each packet in bytes.
    pub(super) fn len(&self) -> usize {
        self.template.len()
    }

    /// Appends the next packet, of `len` bytes.
    pub(super) fn write(&mut self, out: &mut Vec<u8>) {
        self.number = self.number.wrapping_add(1);
        let number = self.number;
        if self.plain {
            // No SCTP packet has port 0, so the receiver discards the datagram at once.
            let begin = out.len();
            out.resize(begin + self.template.len(), 0);
            return put(out, begin + INITIATE_TAG, &number.to_be_bytes());
        }
        // As good as random, and never 0: the multiplier is odd.
        let tag = number.wrapping_mul(0x9e37_79b1).max(1);
        let port = PORTS_MIN + (number % PORTS) as u16;
        put(&mut self.template, SOURCE_PORT, &port.to_be_bytes());
        put(&mut self.template, CHECKSUM, &[0; 4]);
        put(&mut self.template, INITIATE_TAG, &tag.to_be_bytes());
        put(&mut self.template, INITIAL_TSN, &(!tag).to_be_bytes());
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &self.template) as u32;
        put(&mut self.template, CHECKSUM, &sum.to_le_bytes());
        out.extend_from_slice(&self.template);
    }
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + field.len()) {
        place.copy_from_slice(field);
    }
}

/// Returns the INIT of a stack in memory, which reaches no network.
async fn capture(port: u16) -> Result<Vec<u8>> {
    let (here, there) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
    let first = Arc::new(First::default());
    let network = Network::new();
    let stack = Stack::builder().observer(first.clone()).memory(&network, [here])?;
    let association = Association::start(&stack, (there, port), 0, None)?;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let bytes = first.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(bytes) = bytes {
            association.abort("captured");
            return Ok(bytes).and_then(checked);
        }
    }
    bail!("the in-memory stack sent no INIT")
}

/// Checks that the fields that vary are at their expected offsets.
fn checked(bytes: Vec<u8>) -> Result<Vec<u8>> {
    const INIT: u8 = 1;
    let kind = bytes.get(12).copied().context("the packet has no chunk")?;
    if kind != INIT || bytes.len() < INITIAL_TSN + 4 {
        bail!("the packet is not an INIT");
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
