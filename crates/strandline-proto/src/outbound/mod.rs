//! The sending half of an association: from `push` to the acknowledgement (RFC 9260 sections 6.1 to 6.3, 6.9, 7.2.4).
//!
//! ```text
//!  push -> queue -> scheduler -> fragment -> outstanding -- on_sack --> gone
//!                                  ^ next_new    |    ^
//!                                                v    | next_retransmission
//!                              on_sack, on_timeout: marked
//! ```
//!
//! This half knows no packets, timers or congestion windows: `association` asks for one chunk after another while those
//! allow it, and applies the effects of each acknowledgement to each path.
//!
//! | files | concern |
//! |---|---|
//! | [`messages`], [`copies`] | messages from `push` until they are acknowledged, and their bytes |
//! | [`send_queue`], [`scheduling`] | what is sent next: queue, schedulers, settings |
//! | [`bundle`], [`fragment`], [`new_chunk`], [`write`] | whole messages, fragments, TSNs and SSNs, chunks |
//! | [`interleaving`] | I-DATA |
//! | [`stream_credit`], [`accounts`] | credit of streams |
//! | [`sent`] | what was sent, when, and again |
//! | [`window`], [`window_opened`] | the peer's receive window and window probes |
//! | [`acknowledge`], [`retransmit`], [`timeout`] | SACK, NR-SACK and SHUTDOWN; retransmission; time-outs |
//! | [`recovery`] | acknowledgements, loss detection, spurious retransmissions |
//! | [`partial`] | messages that are abandoned |
//! | [`reconfigure`], [`dynamic_streams`] | resets of streams, and streams opened at run time |
//! | [`state`] | read-only queries |

mod accounts;
mod acknowledge;
mod bundle;
mod copies;
pub(crate) mod dynamic_streams;
mod fragment;
pub(crate) mod interleaving;
mod messages;
mod new_chunk;
pub(crate) mod partial;
pub(crate) mod reconfigure;
mod recovery;
mod retransmit;
pub(crate) mod scheduling;
mod send_queue;
mod sent;
mod state;
pub(crate) mod stream_credit;
mod timeout;
mod window;
mod window_opened;
pub(crate) mod write;

#[cfg(test)]
mod tests;

pub(crate) use acknowledge::on_nr_sack;
pub(crate) use bundle::{Bundled, Urgency};
pub(crate) use recovery::ack::{PathAck, SackOutcome};
pub(crate) use recovery::frto::FRTO_PACKETS;
pub(crate) use retransmit::Retransmission;
pub(crate) use state::{is_blocked, marked_chunks, waits_for_credit};

use bytes::Bytes;
use strandline_wire::Data;

use crate::config::{AssociationConfig, Recovery};
use crate::error::SendError;
use crate::event::{FailedMessage, FailureCause, SendInfo};
use crate::number::{StreamId, Tsn};
use crate::packet_sizes::ETHERNET_MTU;
use crate::path_index::PathIndex;
use crate::reliability::Reliability;
use crate::stats::SentAgain;
use crate::stream_numbers::StreamNumbers;
use crate::time::Time;
use interleaving::{EXTRA_LEN, Interleaving, interleaves};
use messages::{Message, MessageKey, Messages, Payload};
use new_chunk::{NewChunk, next_chunk};
use partial::Partial;
use recovery::rack::Learnt;
use recovery::send_window::SendWindow;
use send_queue::queue::Queue;
use send_queue::settings::Settings;
use sent::outstanding::Record;
#[cfg(test)]
use sent::outstanding::State;
use sent::outstanding::{FAST_MARKED, RESENT};
use window::PeerWindow;

/// Maximum length in bytes of messages that are copied even from a shared buffer: releasing the buffer would cost as
/// much.
const SHARED_COPY_MAX: usize = 256;

/// Bytes of new data that a tail-loss probe sends at most, so that the peer's window must have room for them, or for
/// all that there is: those of a packet on most links.
const PROBE_ROOM: usize = ETHERNET_MTU as usize;

/// The sending half of an association.
///
/// # Contract
/// To send a packet on a path, the caller calls [`next_retransmission`](Self::next_retransmission) until it returns
/// `None`, then [`next_new`](Self::next_new) until it returns `None`, with the space left in the packet each time, and
/// writes each chunk before the next call. Before each `next_new` it may let [`bundle`](Self::bundle) do so for all
/// messages that need no fragmentation. It adds the length of each chunk, header and padding included, to the path's
/// flight and starts T3-rtx if it does not run (R1); it *re*starts T3-rtx for a retransmission that
/// [`is_earliest_outstanding`](Self::is_earliest_outstanding) (section 6.1).
///
/// - **cwnd** is the caller's concern: it does not call while the path's flight reaches cwnd. One packet is exempt:
///   while [`fast_retransmit_pending`](Self::fast_retransmit_pending), one packet of retransmissions is sent regardless
///   of cwnd, and then [`fast_retransmit_sent`](Self::fast_retransmit_sent) is called.
/// - **New data waits** while anything is marked for retransmission (section 6.1 C): `next_new` returns `None` then.
/// - **Too large:** if [`retransmission`](Self::retransmission) is larger than an empty packet, the path MTU has
///   fallen, and the caller passes a packet of that size for IP to fragment.
/// - **Acknowledgements:** the caller passes an array of default [`PathAck`]s and applies each to its path afterwards.
/// - **T3-rtx:** on expiry the caller checks with [`zero_window_probing`](Self::zero_window_probing) whether it counts
///   as an error, then calls [`on_timeout`](Self::on_timeout) and subtracts its result from the path's flight.
/// - **Zero window:** if [`window_probe_wanted`](Self::window_probe_wanted) after the caller has sent what it could,
///   nothing is in flight and no SACK will arrive by itself. The caller runs T3-rtx of the path for new data for one
///   RTO, without an error when it expires, and then calls [`permit_window_probe`](Self::permit_window_probe), which
///   lets `next_new` return one chunk.
#[derive(Debug)]
pub(crate) struct Outbound {
    window: PeerWindow,
    /// Next TSN while `busy` is `None`.
    idle_next: Tsn,
    /// Number of outgoing streams.
    streams: u16,
    /// What is known about the paths while `busy` is `None`.
    learnt: Learnt,
    /// The next SSNs, and what is kept beside them.
    numbers: Numbers,
    /// Allocated with the first message, freed by `release_idle`.
    busy: Option<Box<Busy>>,
}

/// The next SSNs of streams, and what is kept beside them.
type Numbers = StreamNumbers<Beside>;

/// What few associations need beside the numbers of streams.
#[derive(Debug, Default)]
struct Beside {
    /// What the application has set of the order of messages while `busy` is `None`.
    settings: Settings,
    /// The numbers of I-DATA chunks, if these are sent instead of DATA.
    interleaving: Option<Box<Interleaving>>,
}

/// Returns what the queue of an association that becomes busy needs: its settings, and whether messages are
/// interleaved.
fn queue_settings(numbers: &mut Numbers) -> (Settings, bool) {
    let interleaves = interleaving::state(numbers).is_some();
    (scheduling::take_settings(numbers), interleaves)
}

/// State that exists only while there is something to send.
#[derive(Debug)]
pub(crate) struct Busy {
    queue: Queue,
    sent: SendWindow,
    messages: Messages,
    /// Allocated with the first message that has a limit.
    partial: Option<Box<Partial>>,
}

impl Busy {
    fn new(
        next: Tsn,
        learnt: Learnt,
        (settings, interleaves): (Settings, bool),
        config: &AssociationConfig,
    ) -> Self {
        let mut queue = Queue::new(settings, config.stream_scheduler, config.send_buffer_start());
        queue.is_fixed = config.send_buffer.is_some();
        if interleaves {
            queue.set_interleaves(true);
        }
        let sent = SendWindow::new(next, config.recovery, learnt);
        Self { queue, sent, messages: Messages::default(), partial: None }
    }

    #[cold]
    #[inline(never)]
    fn on_limited(&mut self, now: Time, key: MessageKey, reliability: Reliability) {
        self.partial.get_or_insert_default().on_pushed(now, key, reliability, &self.messages);
    }

    /// Returns the state of an association that has nothing to send, for the time of an acknowledgement.
    fn empty(next: Tsn) -> Self {
        let sent = SendWindow::new(next, Recovery::Rfc9260, Learnt::default());
        Self { queue: Queue::default(), sent, messages: Messages::default(), partial: None }
    }
}

/// Set-up, the application's side, and the end.
impl Outbound {
    /// Creates the sending half of an association whose first chunk has `initial_tsn`.
    #[must_use]
    pub(crate) fn new(initial_tsn: Tsn, peer_rwnd: u32, streams: u16) -> Self {
        Self {
            window: PeerWindow::new(peer_rwnd),
            idle_next: initial_tsn,
            streams,
            learnt: Learnt::default(),
            numbers: StreamNumbers::default(),
            busy: None,
        }
    }

    /// Sets the receive window in bytes and the number of streams from the peer's INIT or INIT ACK. Returns earlier
    /// messages on streams beyond that number, which have failed.
    #[must_use]
    pub(crate) fn set_peer(&mut self, peer_rwnd: u32, streams: u16) -> Vec<FailedMessage> {
        // Data that went with a COOKIE ECHO may exceed it.
        self.window = PeerWindow::new(peer_rwnd);
        self.window.spend(self.outstanding_bytes() as usize);
        self.streams = streams;
        scheduling::limit_streams(self);
        let Some(busy) = &mut self.busy else { return Vec::new() };
        let Busy { queue, messages, partial, .. } = &mut **busy;
        let failed = queue.extract(messages, |message| message.info.stream.0 >= streams);
        let limit = |key| partial::limit(partial.as_deref(), key);
        let fail = |key| messages.fail(key, FailureCause::InvalidStream, limit);
        failed.into_iter().filter_map(fail).collect()
    }

    /// Queues a message. A small one is copied; the buffer of a larger one is kept until it is acknowledged.
    ///
    /// # Errors
    /// Returns [`SendError::WouldBlock`] if the send buffer or `send_messages_max` would be exceeded, except
    /// that one message is always accepted into an empty buffer, or into an auto-tuned one that is at most
    /// half full; `writable` follows (see [`SackOutcome::Applied`]). `send_buffer` is called only when the
    /// buffer seems to be full. Bytes count against it until they are cumulatively acknowledged.
    /// [`SendError::Empty`], [`SendError::TooLarge`] and [`SendError::InvalidStream`] are for messages that
    /// can never be sent.
    #[inline]
    pub(crate) fn push(
        &mut self,
        now: Time,
        info: SendInfo,
        data: &mut Bytes,
        config: &AssociationConfig,
        send_buffer: impl FnOnce(u32) -> u32,
    ) -> Result<(), SendError> {
        let busy = self.room_for(info, data.len(), config, send_buffer)?;
        let data = core::mem::take(data);
        let small = data.len() <= SHARED_COPY_MAX;
        let payload = if small { busy.messages.copy(&data) } else { Payload::Shared(data) };
        let key = busy.queue.push(&mut busy.messages, Message::new(info, payload));
        if !info.reliability.is_full() {
            busy.on_limited(now, key, info.reliability);
        }
        Ok(())
    }

    /// As [`push`](Self::push), but copies the bytes of a slice.
    ///
    /// # Errors
    /// Fails as [`push`](Self::push) does.
    #[inline]
    pub(crate) fn push_slice(
        &mut self,
        now: Time,
        info: SendInfo,
        data: &[u8],
        config: &AssociationConfig,
        send_buffer: impl FnOnce(u32) -> u32,
    ) -> Result<(), SendError> {
        let busy = self.room_for(info, data.len(), config, send_buffer)?;
        let payload = busy.messages.copy(data);
        let key = busy.queue.push(&mut busy.messages, Message::new(info, payload));
        if !info.reliability.is_full() {
            busy.on_limited(now, key, info.reliability);
        }
        Ok(())
    }

    /// Sets the loss recovery. Returns false without a change while anything is outstanding.
    pub(crate) fn set_recovery(&mut self, recovery: Recovery) -> bool {
        self.busy.as_mut().is_none_or(|busy| busy.sent.set_mode(recovery))
    }

    /// Sets the size of the send buffer in bytes, until a message is refused.
    pub(crate) fn set_send_buffer(&mut self, send_buffer: u32) {
        if let Some(busy) = &mut self.busy {
            busy.queue.set_limit(send_buffer);
        }
    }

    /// Returns true if a message of `len` bytes is accepted although the send buffer is full.
    pub(crate) fn fits_reserve(&self, stream: StreamId, len: usize) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.queue.fits_reserve(stream, len))
    }

    /// Returns the state for another message of `len` bytes. If the send buffer is full, the application will
    /// be notified when it has room.
    #[inline]
    pub(crate) fn room_for(
        &mut self,
        info: SendInfo,
        len: usize,
        config: &AssociationConfig,
        send_buffer: impl FnOnce(u32) -> u32,
    ) -> Result<&mut Busy, SendError> {
        if len == 0 {
            return Err(SendError::Empty);
        }
        if len > config.message_size_max as usize {
            return Err(SendError::TooLarge { size: len, limit: config.message_size_max });
        }
        if info.stream.0 >= self.streams {
            return Err(SendError::InvalidStream { stream: info.stream.0, streams: self.streams });
        }
        let numbers = &mut self.numbers;
        let create = || Box::new(Busy::new(self.idle_next, self.learnt, queue_settings(numbers), config));
        let send_buffer = || send_buffer(self.window.rwnd());
        let busy = self.busy.get_or_insert_with(create);
        let credit = interleaving::room(&self.numbers, info.stream);
        busy.queue.check_room(info.stream, len, credit, config, send_buffer)?;
        Ok(busy)
    }

    /// Ends or restarts the association: returns every message that is not cumulatively acknowledged to its last
    /// byte, whole, in sending order. Nothing is left afterwards.
    ///
    /// Messages that gap blocks acknowledged completely are included, since the peer may have revoked that: `sent`
    /// tells that it may have them.
    pub(crate) fn fail_all(&mut self, cause: FailureCause) -> Vec<FailedMessage> {
        self.idle_next = self.next_tsn();
        let Some(busy) = self.busy.take() else { return Vec::new() };
        let Busy { mut queue, sent, mut messages, partial } = *busy;
        scheduling::put_settings(&mut self.numbers, core::mem::take(&mut queue.settings));
        let unsent = queue.into_keys(&mut messages);
        let keys = sent.outstanding.messages().chain(unsent);
        let limit = |key| partial::limit(partial.as_deref(), key);
        keys.filter_map(|key| messages.fail(key, cause, limit)).collect()
    }

    /// Frees all heap memory that is not needed. Does nothing while anything is queued or outstanding.
    pub(crate) fn release_idle(&mut self) {
        if self.is_empty() && self.busy.as_ref().is_some_and(|busy| !busy.queue.is_blocked()) {
            self.idle_next = self.next_tsn();
            let Some(busy) = self.busy.take() else { return };
            scheduling::put_settings(&mut self.numbers, busy.queue.settings);
            self.learnt = busy.sent.rack.map_or(Learnt::default(), |rack| rack.learnt());
            if let Some(interleaving) = interleaving::state_mut(&mut self.numbers) {
                interleaving.release_idle();
            }
        }
    }
}

/// Transmission.
impl Outbound {
    /// Returns the lowest chunk marked for retransmission, if it fits `space` bytes with its header and padding. It
    /// is in flight on `path` from now on.
    pub(crate) fn next_retransmission(
        &mut self,
        now: Time,
        path: PathIndex,
        space: usize,
    ) -> Option<Data<'_>> {
        let Busy { sent, messages, partial, .. } = self.busy.as_deref_mut()?;
        let index = sent.resend_next(now, path, space)?;
        if let Some(partial) = partial
            && let Some(key) = sent.outstanding.get(index).and_then(Record::message)
            && let Some(message) = messages.get(key)
        {
            partial.on_resent(sent.outstanding.tsn(index), key, message);
        }
        let data = sent.outstanding.chunk(index, messages)?;
        self.window.spend(data.payload.len());
        Some(data)
    }

    /// Returns the next chunk of new data that fits `space` bytes with its header and padding. It is in flight on
    /// `path` from now on. `packet_space` is the room in a packet without any chunk: a message that does not fit it
    /// is fragmented so that packets are full. With a `packet_space` no larger than `space` any message is
    /// fragmented, which suits the packet of the COOKIE ECHO.
    ///
    /// Returns `None` if there is nothing to send, it does not fit, something waits for retransmission, the peer's
    /// window has no room, or 65,535 chunks are outstanding.
    #[inline]
    pub(crate) fn next_new(
        &mut self,
        now: Time,
        path: PathIndex,
        space: usize,
        packet_space: usize,
    ) -> Option<Data<'_>> {
        let number = |numbers: &mut Numbers, message: &mut Message, chunk: NewChunk<'_>| {
            if chunk.begins && !message.info.unordered {
                message.ssn = numbers.take(message.info.stream);
            }
        };
        next_chunk(self, now, path, (space, packet_space), usize::MAX, number).map(|(data, ())| data)
    }

    /// Returns the chunk that `next_retransmission` will return, if any is marked.
    pub(crate) fn retransmission(&mut self) -> Option<Retransmission> {
        let extra = if interleaves(self) { EXTRA_LEN } else { 0 };
        let again = self.busy.as_deref_mut()?.sent.retransmission()?;
        Some(Retransmission { size: again.size + extra, ..again })
    }

    /// True if fast recovery began and its first packet, which is sent regardless of cwnd, is still to be sent
    /// (section 7.2.4 rule 3).
    #[must_use]
    pub(crate) fn fast_retransmit_pending(&self) -> bool {
        self.sent()
            .is_some_and(|sent| sent.fast_recovery.first_packet_pending() && sent.outstanding.marked() > 0)
    }

    /// Records that the packet was sent that is allowed regardless of cwnd.
    pub(crate) fn fast_retransmit_sent(&mut self) {
        if let Some(busy) = &mut self.busy {
            busy.sent.fast_recovery.on_first_packet();
        }
    }

    /// True if no chunk before `tsn` that was last sent on `path` is outstanding: retransmitting it there restarts
    /// T3-rtx (section 6.1).
    #[must_use]
    pub(crate) fn is_earliest_outstanding(&self, tsn: Tsn, path: PathIndex) -> bool {
        let Some(sent) = self.sent() else { return false };
        let Some(index) = sent.outstanding.index_of(tsn) else { return false };
        let earlier = |path| sent.outstanding.range(0, index).any(|r| r.path == path && !r.is_done());
        !earlier(path)
    }

    /// Returns why a chunk in the send window was last retransmitted.
    #[must_use]
    pub(crate) fn sent_again(&self, tsn: Tsn) -> Option<SentAgain> {
        let SendWindow { outstanding, rack, .. } = self.sent()?;
        let record = outstanding.get(outstanding.index_of(tsn)?)?;
        Some(match rack {
            Some(_) if !record.has(RESENT) => return None,
            Some(rack) if rack.has_probed_with(tsn) => SentAgain::Probe,
            _ if record.has(FAST_MARKED) => SentAgain::Lost,
            _ => SentAgain::TimedOut,
        })
    }

    /// Returns the path that a chunk in the send window was last sent on.
    #[must_use]
    pub(crate) fn path_of(&self, tsn: Tsn) -> Option<PathIndex> {
        let sent = self.sent()?;
        sent.outstanding.get(sent.outstanding.index_of(tsn)?).map(|record| record.path)
    }

    /// True if the chunk was sent once, as far as is known: only with loss detection by time.
    #[must_use]
    pub(crate) fn went_once(&self, tsn: Tsn) -> bool {
        let Some(sent) = self.sent().filter(|sent| sent.rack.is_some()) else { return true };
        let record = sent.outstanding.index_of(tsn).and_then(|index| sent.outstanding.get(index));
        record.is_none_or(|record| !record.has(RESENT))
    }

    /// Returns the path whose tail-loss probe the chunk was, if it is not known yet whether it was needed.
    #[must_use]
    pub(crate) fn probed_from(&self, tsn: Tsn) -> Option<PathIndex> {
        self.sent()?.rack.as_ref()?.probed_from(tsn)
    }

    /// True if new data waits, the peer's window has no room for it and nothing is outstanding: a window probe is
    /// needed after one RTO (section 6.1 A).
    #[must_use]
    pub(crate) fn window_probe_wanted(&self) -> bool {
        self.window.probe_wanted()
            && self.has_pending()
            && self.sent().is_some_and(|s| s.outstanding.is_empty())
    }

    /// Ends the wait for the window probe: `next_new` returns one chunk regardless of the peer's window.
    pub(crate) fn permit_window_probe(&mut self) {
        self.window.permit_probe();
    }
}

/// Acknowledgement.
impl Outbound {
    /// Records that the window of the path has shrunk because the network marked data: it does not shrink again for
    /// losses of that data (RFC 3168 section 6.1.2).
    pub(crate) fn on_shrunk(&mut self, path: PathIndex) {
        let Some(busy) = &mut self.busy else { return };
        busy.sent.fast_recovery.on_shrunk(path, busy.sent.outstanding.next_tsn().previous());
        if let Some(mut rack) = busy.sent.rack_recovery() {
            rack.on_shrunk(path);
        }
    }

    /// Returns when [`on_loss_timer`](Self::on_loss_timer) is due; `Time::MAX` if no chunk may become lost by time.
    #[must_use]
    pub(crate) fn loss_deadline(&self) -> Time {
        self.sent().and_then(|sent| sent.rack.as_ref()).map_or(Time::MAX, |rack| rack.deadline())
    }

    /// True if the peer's window is closed, data or a probe is outstanding, and a SACK arrived since the last
    /// time-out of the path: an expiry of its T3-rtx does not count as an error now (section 6.1 A).
    #[must_use]
    pub(crate) fn zero_window_probing(&self, path: PathIndex) -> bool {
        self.window.is_probed(path) && self.sent().is_some_and(|sent| !sent.outstanding.is_empty())
    }

    fn sent(&self) -> Option<&SendWindow> {
        self.busy.as_deref().map(|busy| &busy.sent)
    }
}
