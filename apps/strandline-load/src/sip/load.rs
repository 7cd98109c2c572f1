//! What the tasks of a load share: the user agents, and the way out.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::pace::now;

use super::engine::Engine;
use super::out::Out;

/// Sends what user agents write.
pub(super) trait Carrier {
    /// Sends messages, those of a source one after the other. Connections that are lost are counted.
    fn send(&self, out: &Out, load: &Load);

    /// The flow of a source is broken: it gets another one, if there is something to be opened.
    fn give_up(&self, _source: usize) {}

    /// Waits until something comes, for so long at most, and lets user agents handle it. False if the runtime does that.
    fn wait(&self, _load: &Rc<Load>, _most: Duration) -> bool {
        false
    }
}

/// One process's load.
pub(super) struct Load {
    pub(super) engine: RefCell<Engine>,
    carrier: OnceCell<Box<dyn Carrier>>,
    /// Connections that ended while they were in use.
    pub(super) lost: Cell<u64>,
    spare: RefCell<Out>,
    /// User agents have written something.
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

    /// Only the first carrier counts.
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

    /// Lets the user agents work. What comes of it is sent once all tasks have worked that something has come for: so many
    /// messages go together.
    pub(super) fn with(&self, work: impl FnOnce(&mut Engine, Instant)) {
        let mut engine = self.engine.borrow_mut();
        work(&mut engine, now());
        if !engine.out.messages.is_empty() {
            self.written.notify_one();
        }
    }

    /// Sends what user agents have written, without waiting for other tasks to work.
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
            // The sort is stable: a source's messages stay in their order.
            out.messages.sort_by_key(|(source, ..)| *source);
            carrier.send(&out, self);
        }
        out.clear();
        self.spare.replace(out);
    }

    /// Waits until something comes, for so long at most. False if the carrier leaves that to the runtime.
    pub(super) fn wait(self: &Rc<Self>, most: Duration) -> bool {
        self.carrier.get().is_some_and(|carrier| carrier.wait(self, most))
    }

    pub(super) fn count_lost(&self) {
        self.lost.set(self.lost.get() + 1);
    }
}
