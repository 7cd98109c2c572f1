//! State that the tasks of a load share: the user agents, and the transport.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use strandline::Association;
use strandline_measure::now;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::engine::Engine;
use super::out::Out;

/// Maximum time for the end of associations.
const CLOSING_MAX: Duration = Duration::from_secs(3);

/// Sends the messages of user agents.
pub(super) trait Carrier {
    /// Sends messages, those of a source in order. Counts lost connections.
    fn send(&self, out: &Out, load: &Load);

    /// Replaces the broken flow of a source, if the transport has connections.
    fn give_up(&self, _source: usize) {}

    /// Begins to end the associations, which the server would keep, and returns them.
    fn end(&self) -> Vec<Rc<Association>> {
        Vec::new()
    }

    /// Waits for events for at most `_most`, and lets user agents handle them. Returns false if the runtime
    /// does the waiting.
    fn wait(&self, _load: &Rc<Load>, _most: Duration) -> bool {
        false
    }
}

/// The load of one process.
pub(super) struct Load {
    pub(super) engine: RefCell<Engine>,
    carrier: OnceCell<Box<dyn Carrier>>,
    /// Connections that ended while they were in use.
    pub(super) lost: Cell<u64>,
    spare: RefCell<Out>,
    /// Notified when user agents have written messages.
    written: Notify,
}

impl Load {
    pub(super) fn new(engine: Engine) -> Rc<Self> {
        Rc::new(Self {
            engine: RefCell::new(engine),
            carrier: OnceCell::new(),
            lost: Cell::new(0),
            spare: RefCell::default(),
            written: Notify::new(),
        })
    }

    /// Sets the transport. Only the first call has an effect.
    pub(super) fn send_by(self: &Rc<Self>, carrier: Box<dyn Carrier>) {
        let _ = self.carrier.set(carrier);
        let load = Rc::clone(self);
        tokio::task::spawn_local(async move {
            loop {
                load.written.notified().await;
                load.send();
            }
        });
    }

    /// Runs `work` on the user agents. The messages are sent once all tasks with pending events have run, so
    /// that many messages are sent together.
    pub(super) fn with(&self, work: impl FnOnce(&mut Engine, Instant)) {
        let mut engine = self.engine.borrow_mut();
        work(&mut engine, now());
        if !engine.out.messages.is_empty() {
            self.written.notify_one();
        }
    }

    /// Sends the messages that user agents have written, without waiting for other tasks.
    pub(super) fn send(&self) {
        let mut out = self.spare.take();
        let broken = {
            let mut engine = self.engine.borrow_mut();
            std::mem::swap(&mut out, &mut engine.out);
            engine.take_broken()
        };
        if let Some(carrier) = self.carrier.get() {
            broken.into_iter().for_each(|source| carrier.give_up(source));
        }
        if let (Some(carrier), false) = (self.carrier.get(), out.messages.is_empty()) {
            // The sort is stable: each source's messages stay in order.
            out.messages.sort_by_key(|(source, ..)| *source);
            carrier.send(&out, self);
        }
        out.clear();
        self.spare.replace(out);
    }

    /// Waits for events for at most `most`. Returns false if the transport leaves that to the runtime.
    pub(super) fn wait(self: &Rc<Self>, most: Duration) -> bool {
        self.carrier.get().is_some_and(|carrier| carrier.wait(self, most))
    }

    /// Ends associations: a load after this one may come from the same addresses and SCTP ports.
    pub(super) async fn end(&self) {
        let ending = self.carrier.get().map(|carrier| carrier.end()).unwrap_or_default();
        let ended = async {
            for association in ending {
                association.closed().await;
            }
        };
        let _ = timeout(CLOSING_MAX, ended).await;
    }

    pub(super) fn count_lost(&self) {
        self.lost.set(self.lost.get() + 1);
    }
}
