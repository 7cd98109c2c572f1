//! What the tasks of a load share: the user agents, and the way out.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use crate::pace::now;

use super::engine::{Engine, Out};

/// Sends what user agents write.
pub(super) trait Carrier {
    /// Sends messages, those of a source one after the other.
    fn send(&self, out: &Out);
}

/// One process's load.
pub(super) struct Load {
    pub(super) engine: RefCell<Engine>,
    carrier: OnceCell<Box<dyn Carrier>>,
    /// Connections that ended while they were in use.
    pub(super) lost: Cell<u64>,
    spare: RefCell<Out>,
}

impl Load {
    pub(super) fn new(engine: Engine) -> Rc<Self> {
        Rc::new(Self {
            engine: RefCell::new(engine),
            carrier: OnceCell::new(),
            lost: Cell::new(0),
            spare: RefCell::default(),
        })
    }

    /// Only the first carrier counts.
    pub(super) fn send_by(&self, carrier: Box<dyn Carrier>) {
        let _ = self.carrier.set(carrier);
    }

    /// Lets the user agents work, and sends what comes of it.
    pub(super) fn with(&self, work: impl FnOnce(&mut Engine, Instant)) {
        let mut out = self.spare.take();
        {
            let mut engine = self.engine.borrow_mut();
            work(&mut engine, now());
            std::mem::swap(&mut out, &mut engine.out);
        }
        if let (Some(carrier), false) = (self.carrier.get(), out.messages.is_empty()) {
            // The sort is stable: a source's messages stay in their order.
            out.messages.sort_by_key(|(source, ..)| *source);
            carrier.send(&out);
        }
        out.clear();
        self.spare.replace(out);
    }

    pub(super) fn count_lost(&self) {
        self.lost.set(self.lost.get() + 1);
    }
}
