//! The tasks of an association: one takes its messages, one sends control messages.

use std::sync::Arc;

use bytes::Bytes;
use strandline::{Ended, Message, Ppid, RecvError, SendInfo, StreamId};

use super::Shared;
use super::table::{Arrived, Role};

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
        let result = shared
            .with(|table| messages.drain(..).map(arrived).try_for_each(|message| table.on_message(message)));
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

/// Waits until the readers have taken enough, or the association has ended.
async fn wait_for_room(shared: &Shared) {
    let closed = shared.association.closed();
    tokio::pin!(closed);
    while shared.lock().is_full() {
        tokio::select! {
            () = shared.drained.notified() => {}
            _ = &mut closed => return,
        }
    }
}

/// Sends control messages, and begins the shutdown once nothing is left to do.
async fn send_controls(shared: Arc<Shared>) {
    let ppid = Ppid(shared.settings.label(true).ppid());
    loop {
        let next = shared.lock().pop_control();
        if let Some((stream, control)) = next {
            let info = SendInfo::on(StreamId(stream)).ppid(ppid);
            let message = Bytes::copy_from_slice(&control.to_bytes());
            if shared.association.send_bytes(message, info).await.is_err() {
                return;
            }
            shared.with(|table| table.on_control_sent(stream, control));
            shared.changed.notify_waiters();
            continue;
        }
        {
            let table = shared.lock();
            if table.wants_abort() {
                shared.association.abort("an HTTP connection failed");
                return;
            }
            if table.ended.is_some() {
                return;
            }
            if table.is_closing && !table.is_busy() {
                shared.association.control().start_shutdown();
                return;
            }
        }
        shared.controls.notified().await;
    }
}
