//! The tasks of an association: one takes its messages, one sends control messages.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use strandline::{Ended, Message, Ppid, RecvError, SendInfo, StreamId};
use tokio::time::Instant;

use super::Shared;
use super::table::{Arrived, Role, Table};
use crate::control::Control;

/// Messages taken from the association at once.
const BATCH: usize = 64;

/// Starts the tasks. They end with the association.
pub(super) fn start(shared: &Arc<Shared>, role: Role) {
    tokio::spawn(receive(Arc::clone(shared)));
    tokio::spawn(send_controls(Arc::clone(shared)));
    if role == Role::Client {
        // Only the set-up shows how many streams there are; the first always exists.
        shared.lock().set_streams(1);
        tokio::spawn(learn_streams(Arc::clone(shared)));
        tokio::spawn(super::watch::watch(Arc::clone(shared)));
    }
}

async fn learn_streams(shared: Arc<Shared>) {
    if shared.association.established().await.is_ok()
        && let Some(status) = shared.association.status()
    {
        shared.lock().set_streams(status.outbound_streams.min(status.inbound_streams));
    }
    shared.changed.notify_waiters();
}

/// Takes messages from the association until it ends, as long as there is room for them.
async fn receive(shared: Arc<Shared>) {
    let mut messages = Vec::new();
    let ended = loop {
        wait_for_room(&shared).await;
        match shared.association.recv_many(&mut messages, BATCH).await {
            Ok(0) => break Ended::ShutDown,
            Ok(_) => {}
            Err(RecvError::Ended(ended)) => break ended,
            Err(_) => break Ended::StackClosed,
        }
        let now = shared.begun.elapsed();
        let result = shared.with(|table| {
            messages.drain(..).map(arrived).try_for_each(|message| table.on_message(message, now))
        });
        if let Err(violation) = result {
            messages.clear();
            tracing::debug!(
                reason = violation.0,
                "aborting an association: the peer violates HTTP over SCTP"
            );
            shared.association.abort(violation.0);
        }
        shared.changed.notify_waiters();
    };
    // A peer that shuts down has sent everything, but waits for what this side still has to deliver.
    shared.with(|table| table.on_ended(ended));
    shared.changed.notify_waiters();
    shared.controls.notify_one();
}

fn arrived(message: Message) -> Arrived {
    Arrived {
        stream: message.stream.0,
        ppid: message.ppid.0,
        is_unordered: message.unordered,
        is_whole: message.begins && message.ends,
        data: message.data,
    }
}

/// Waits until the readers have taken enough, or the association has ended. Connections are given up meanwhile if their
/// data waits for too long.
async fn wait_for_room(shared: &Shared) {
    let closed = shared.association.closed();
    tokio::pin!(closed);
    let limit = shared.settings.stall_timeout;
    loop {
        let budget = shared.settings.budget.room();
        let since = {
            let table = shared.lock();
            if !table.is_full() {
                return;
            }
            table.stalled_since()
        };
        let stalled = async {
            // An overflow means that the limit is beyond any uptime.
            match since.and_then(|since| shared.begun.checked_add(since.checked_add(limit)?)) {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.drained.notified() => {}
            () = budget => {}
            () = stalled => {
                tracing::debug!("resetting an HTTP connection: what it holds is not read, and others have no room");
                let since = shared.begun.elapsed().saturating_sub(limit);
                shared.with(|table| table.give_up_stalled(since));
                shared.controls.notify_one();
            }
            _ = &mut closed => return,
        }
    }
}

/// Sends control messages, and ends the association once nothing is left to do or it has been idle for too long.
async fn send_controls(shared: Arc<Shared>) {
    let mut idle = Idle::new();
    loop {
        let next = shared.lock().pop_control();
        if let Some((stream, control)) = next {
            if !send_control(&shared, stream, control).await {
                return;
            }
            continue;
        }
        let step = {
            let mut table = shared.lock();
            if table.wants_abort() {
                shared.association.abort("an HTTP connection failed");
                return;
            }
            if table.ended.is_some() {
                return;
            }
            let deadline = idle.deadline(&table, shared.settings.idle_timeout);
            let is_idle = deadline.is_some_and(|deadline| deadline <= now());
            if is_idle {
                table.close();
            }
            if table.is_closing && !table.is_busy() { Step::ShutDown } else { Step::Wait(deadline) }
        };
        let deadline = match step {
            Step::ShutDown => return shut_down(&shared).await,
            Step::Wait(deadline) => deadline,
        };
        let passed = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.controls.notified() => {}
            () = passed => {}
        }
    }
}

enum Step {
    ShutDown,
    Wait(Option<Instant>),
}

/// Since when an association has had no connection.
struct Idle {
    since: Option<Instant>,
    /// Connections that had begun then.
    begun: u64,
}

impl Idle {
    const fn new() -> Self {
        Self { since: None, begun: 0 }
    }

    /// Returns when the association has been idle for `limit`; `None` if it isn't idle, or the limit is beyond any
    /// uptime.
    fn deadline(&mut self, table: &Table, limit: Duration) -> Option<Instant> {
        if table.is_busy() {
            self.since = None;
            return None;
        }
        // Connections may have come and gone since.
        if std::mem::replace(&mut self.begun, table.begun()) != table.begun() {
            self.since = None;
        }
        self.since.get_or_insert_with(now).checked_add(limit)
    }
}

/// Sends a control message. Returns false if that isn't possible, and the association ends.
async fn send_control(shared: &Shared, stream: u16, control: Control) -> bool {
    let info = SendInfo::on(StreamId(stream)).ppid(Ppid(shared.settings.label(true).ppid()));
    let message = Bytes::copy_from_slice(&control.to_bytes());
    let mut sending = std::pin::pin!(shared.association.send_bytes(message, info));
    // Under one lock: the peer may answer an END by the next connection, which must find this one over; and no data
    // of the next connection may be sent before it.
    let sent = poll_fn(|cx| {
        shared.with(|table| {
            let sent = sending.as_mut().poll(cx);
            if let Poll::Ready(Ok(())) = sent {
                table.on_control_sent(stream, control);
            }
            sent
        })
    });
    match tokio::time::timeout(shared.settings.control_timeout, sent).await {
        Ok(sent) => {
            shared.changed.notify_waiters();
            sent.is_ok()
        }
        Err(_) => {
            shared.association.abort("the peer takes no control messages");
            false
        }
    }
}

/// Shuts the association down, and aborts it if the peer takes nothing more.
async fn shut_down(shared: &Shared) {
    shared.changed.notify_waiters();
    shared.association.control().start_shutdown();
    let closed = shared.association.closed();
    tokio::pin!(closed);
    let mut before = None;
    while tokio::time::timeout(shared.settings.control_timeout, &mut closed).await.is_err() {
        let space = Some(shared.association.control().send_space());
        if space == before {
            shared.association.abort("the peer doesn't take what is left to send");
        }
        before = space;
    }
}

#[allow(clippy::disallowed_methods, reason = "time-outs of the network")]
fn now() -> Instant {
    Instant::now()
}
