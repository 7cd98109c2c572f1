//! The credit of streams (docs/stream-credit.md) as the packets on the wire show it.

use std::collections::BTreeMap;

use strandline_wire::RawChunk;
use strandline_wire::chunk::{Chunk, kind};

use crate::violation::{Violation, demand};

/// The largest initial credit of a stream in any run, in bytes.
pub(crate) const INITIAL_MAX: u32 = 64 << 10;

/// The reserved bits of a forged credit. A receiver ignores them; they tell the checker that its account has ended.
pub(crate) const FORGED_CREDIT: u16 = 0xf096;

/// What was sent and granted on each stream. Data that is given up and streams that are reset have other sums, which end the
/// account.
#[derive(Debug, Default)]
pub(super) struct Credit {
    sent: BTreeMap<u16, u32>,
    limits: BTreeMap<u16, u32>,
    ended: bool,
    granted: bool,
}

impl Credit {
    /// Records new data.
    pub(super) fn on_new_data(&mut self, stream: u16, len: u32) -> Result<(), Violation> {
        let sent = self.sent.entry(stream).or_default();
        *sent = sent.wrapping_add(len);
        let limit = self.limits.get(&stream).copied().unwrap_or(0).max(INITIAL_MAX);
        demand(self.ended || !self.granted || *sent <= limit, || {
            format!("stream {stream} sends {sent} bytes, with credit for {limit}")
        })
    }

    /// Records the chunks of a packet in either direction.
    pub(super) fn on_chunks<'a>(&mut self, chunks: impl Iterator<Item = RawChunk<'a>>, arrives: bool) {
        for chunk in chunks {
            match chunk.kind {
                kind::RE_CONFIG | kind::I_FORWARD_TSN => self.ended = true,
                kind::STREAM_CREDIT if arrives => {
                    let chunk_bytes = chunk.as_bytes();
                    let Ok(Chunk::StreamCredit(chunk)) = chunk.parse() else { continue };
                    self.granted = true;
                    // A forged one changes what the sender believes was accepted.
                    let reserved = FORGED_CREDIT.to_be_bytes();
                    self.ended |= chunk_bytes.windows(2).any(|bytes| bytes == reserved);
                    for credit in chunk.credits() {
                        let limit = self.limits.entry(credit.stream.0).or_default();
                        *limit = (*limit).max(credit.limit);
                    }
                }
                _ => {}
            }
        }
    }
}
