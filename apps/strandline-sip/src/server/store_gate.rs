//! Responses that wait for the store: each is sent when the changes that it acknowledges are durable.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use tokio::sync::Notify;

use crate::bindings::Journal;
use crate::codec::{HeaderName, Index, Message, MessageWriter, StatusCode};
use crate::store::{Damage, StoreError, StoreFigures, Writer};
use crate::transaction::Outbox;

/// The Retry-After of responses that refuse a request because the store failed, in seconds.
const RETRY_AFTER_SECS: u32 = 30;

/// The result of [`StoreGate::submit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Submitted {
    /// Nothing was submitted: there were no changes, or there is no store.
    Nothing,
    /// Changes were submitted.
    Changes,
    /// Changes were submitted, and responses wait for them.
    Answers,
}

/// The writer of a shard, and its progress.
pub(super) struct StoreGate {
    writer: Option<Writer>,
    /// The number of batches of responses that wait for the writer.
    unsettled: Cell<usize>,
    /// The number of the last batch of changes submitted to the writer.
    submitted: Cell<u64>,
    /// The number of the last batch that is durable.
    durable: Cell<u64>,
    /// Notified when further batches are durable.
    became_durable: Notify,
    /// The permanent failure of the store, because of which the server has to end.
    lost: RefCell<Option<StoreError>>,
    /// Notified when the store fails permanently.
    pub(super) is_lost: Notify,
}

impl StoreGate {
    pub(super) fn new(writer: Option<Writer>) -> Self {
        Self {
            writer,
            unsettled: Cell::new(0),
            submitted: Cell::new(0),
            durable: Cell::new(0),
            became_durable: Notify::new(),
            lost: RefCell::new(None),
            is_lost: Notify::new(),
        }
    }

    /// Submits changes to the writer, with the responses that wait for them, and empties both. `at` is the
    /// time since the start.
    pub(super) fn submit(&self, journal: &mut Journal, held: &mut Outbox, at: Duration) -> Submitted {
        let Some(writer) = &self.writer else {
            journal.clear();
            return Submitted::Nothing;
        };
        if journal.is_empty() && held.is_empty() {
            return Submitted::Nothing;
        }
        let has_answers = !held.is_empty();
        self.submitted.set(writer.submit(journal, held, at));
        if !has_answers {
            return Submitted::Changes;
        }
        self.unsettled.set(self.unsettled.get() + 1);
        Submitted::Answers
    }

    /// Records that a number of batches of responses no longer wait.
    pub(super) fn release(&self, batches: usize) {
        self.unsettled.set(self.unsettled.get().saturating_sub(batches));
    }

    /// Records that all batches of changes up to this number are durable. Returns true if none submitted
    /// remains.
    pub(super) fn set_durable(&self, through: u64) -> bool {
        self.durable.set(through);
        self.became_durable.notify_waiters();
        through == self.submitted.get()
    }

    /// Waits until all changes submitted so far are durable.
    pub(super) async fn all_is_durable(&self) {
        let wanted = self.submitted.get();
        loop {
            // Created before the check, so that a notification after the check is not missed.
            let more = self.became_durable.notified();
            if self.durable.get() >= wanted {
                return;
            }
            more.await;
        }
    }

    /// Takes back responses that have waited since before `since`, a time since the start.
    pub(super) fn overdue(&self, since: Duration) -> Vec<Outbox> {
        self.writer.as_ref().map(|writer| writer.overdue(since)).unwrap_or_default()
    }

    /// Returns true if no response waits for the store.
    pub(super) fn is_settled(&self) -> bool {
        self.unsettled.get() == 0
    }

    /// The figures of the store, if there is one.
    pub(super) fn figures(&self) -> Option<StoreFigures> {
        self.writer.as_ref().map(|writer| writer.stats().figures())
    }

    /// Counts damaged or missing rows of other nodes.
    pub(super) fn on_damage(&self, damage: &Damage) {
        if let Some(writer) = &self.writer {
            writer.stats().on_damage(damage);
        }
    }

    /// Records that the store failed permanently, so that the server ends.
    pub(super) fn lose(&self, error: StoreError) {
        self.lost.replace(Some(error));
        self.is_lost.notify_one();
    }

    /// Takes the permanent failure of the store, if there is one.
    pub(super) fn why_lost(&self) -> Option<StoreError> {
        self.lost.take()
    }
}

/// Returns a 503 in place of each 200 whose binding can't be made durable.
pub(super) fn refused(held: &Outbox) -> Outbox {
    let mut out = Outbox::new();
    let mut index = Index::new();
    for (item, bytes) in held.iter() {
        let Ok(message) = Message::parse(bytes, &mut index) else { continue };
        let code = StatusCode::SERVICE_UNAVAILABLE;
        let written = out.write(item.flow, None, |out| {
            let mut writer = MessageWriter::response(out, code, code.reason().as_bytes());
            for name in
                [HeaderName::Via, HeaderName::From, HeaderName::To, HeaderName::CallId, HeaderName::CSeq]
            {
                message.lines(name).for_each(|line| {
                    writer.copy(&line);
                });
            }
            writer.number(HeaderName::RetryAfter, RETRY_AFTER_SECS);
            writer.finish(b"")
        });
        if let Err(error) = written {
            tracing::debug!(%error, "writing a response failed");
        }
    }
    out
}
