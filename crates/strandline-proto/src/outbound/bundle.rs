//! Bundling of whole messages (RFC 9260 section 6.10): the path of messages that fit a packet, one packetful at a
//! time.
//!
//! The result is what `Outbound::next_new` would return chunk by chunk. Common checks are made once.

use strandline_wire::PacketBuilder;

use super::interleaving::interleaves;
use super::recovery::send_window::SendWindow;
use super::sent::outstanding::{Piece, chunk_len};
use super::{Busy, Outbound};
use crate::path_index::PathIndex;
use crate::time::Time;

/// Which chunks ask for an immediate acknowledgement (section 6.1, I bit).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Urgency {
    /// True for all of them.
    pub(crate) always: bool,
    /// Those after which this many bytes of chunks have been sent.
    pub(crate) from_bytes: u32,
}

impl Urgency {
    /// True if the chunk after which `bytes` bytes have been sent asks for it.
    #[inline]
    pub(crate) const fn at(self, bytes: u32) -> bool {
        self.always || bytes >= self.from_bytes
    }
}

/// The messages that went into a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bundled {
    /// Bytes of the chunks, including headers and padding.
    pub(crate) bytes: u32,
    pub(crate) chunks: u32,
    /// True if one of them asks for an immediate acknowledgement.
    pub(crate) immediate: bool,
}

impl Outbound {
    /// Appends the next messages to a packet while they fit it whole and the peer's window has room. They are in
    /// flight on `path` from now on. `packet_space` is as for [`next_new`](Self::next_new).
    /// Does nothing if messages are sent in I-DATA chunks.
    pub(crate) fn bundle(
        &mut self,
        now: Time,
        path: PathIndex,
        packet_space: usize,
        urgency: Urgency,
        packet: &mut PacketBuilder<'_>,
    ) -> Bundled {
        let mut bundled = Bundled::default();
        if interleaves(self) {
            return bundled;
        }
        let Some(Busy { queue, sent: SendWindow { outstanding, rack, .. }, messages, .. }) =
            self.busy.as_deref_mut()
        else {
            return bundled;
        };
        if outstanding.marked() > 0 || queue.is_under_way() {
            return bundled;
        }
        let mut space = packet.remaining().min(packet_space);
        let mut rwnd = self.window.rwnd() as usize;
        let mut tsn = outstanding.next_tsn();
        let room = outstanding.room();
        let mut user_data = 0;
        while (bundled.chunks as usize) < room
            && let Some((key, message)) = queue.next_whole(messages)
        {
            let len = message.len();
            let size = chunk_len(len) as usize;
            if size > space || len > rwnd {
                break;
            }
            let stream = message.info.stream;
            if !message.info.unordered {
                message.ssn = self.numbers.take(stream);
            }
            message.on_sent(len);
            bundled.bytes += size as u32;
            let Some(mut data) = messages.whole(key, tsn) else { break };
            data.immediate |= urgency.at(bundled.bytes);
            bundled.immediate |= data.immediate;
            let pushed = packet.push(&data);
            debug_assert!(pushed, "it was measured");
            queue.on_whole_sent(messages, stream, len);
            outstanding.push(path, Piece { message: key, offset: 0, len: len as u16, ends: true });
            bundled.chunks += 1;
            user_data += len;
            space -= size;
            rwnd -= len;
            tsn = tsn.next();
        }
        if bundled.chunks > 0 {
            if let Some(rack) = rack {
                rack.set_packet(packet_space);
            }
            outstanding.on_sent(now, path, bundled.chunks, user_data);
            self.window.spend(user_data);
        }
        bundled
    }
}
