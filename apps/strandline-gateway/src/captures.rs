//! The rules of captured connections of a gateway that runs: they are set, watched, and set again if
//! something else removes them. What sets them runs programs, which other tasks don't wait for.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::{Mutex, watch};
use tokio::task::{spawn_blocking, spawn_local};

use crate::clock::unix_time;
use crate::interception::{self, Interception};
use crate::ruleset::{Captured, Open, Ruleset};

/// Shortest and longest time until rules are set again.
const AGAIN_MIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(60);

/// The rules of a gateway. They belong to the thread that has set them first.
#[derive(Default)]
pub(crate) struct Captures(Rc<State>);

#[derive(Default)]
struct State {
    set: RefCell<Option<Interception>>,
    /// What open connections need: they may outlast the rules that have brought them here.
    open: RefCell<Vec<Interception>>,
    /// What is to be captured.
    wanted: RefCell<Vec<Captured>>,
    /// Held by what changes the rules.
    changing: Mutex<()>,
    /// Whether a task removes the routes that are left over.
    cleans: Cell<bool>,
    is_over: Cell<bool>,
}

impl Captures {
    /// Checks rules without setting them.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub(crate) async fn check(captured: Vec<Captured>) -> Result<()> {
        let rules = Ruleset::new(0, captured);
        if rules.is_empty() {
            return Ok(());
        }
        spawn_blocking(move || interception::check(&rules)).await.context("checking rules")?
    }

    /// Sets rules in the place of those that are set, unless they capture the same. Sets nothing after
    /// [`stop`](Self::stop). If `rest`, which is called once the new rules are set, fails, those of before stay.
    ///
    /// # Errors
    /// The error of `rest`, or that `nft` or `ip` is missing, the privilege is, or the kernel refuses the rules:
    /// nothing has changed then.
    pub(crate) async fn set<T>(
        &self,
        captured: Vec<Captured>,
        rest: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let _changing = self.0.changing.lock().await;
        let is_as_before = *self.0.wanted.borrow() == captured;
        if is_as_before || self.0.is_over.get() {
            return rest();
        }
        let set = self.0.prepare(&captured).await?;
        match rest() {
            Ok(done) => {
                *self.0.wanted.borrow_mut() = captured;
                self.0.replace(set).await;
                Ok(done)
            }
            Err(error) => {
                remove(set).await;
                Err(error)
            }
        }
    }

    /// Removes the rules for new connections. Those that open ones need stay as long as this value.
    pub(crate) async fn stop(&self) {
        self.0.is_over.set(true);
        remove(self.0.set.take()).await;
    }

    /// Returns whether rules are set; `None` if nothing is to be captured.
    pub(crate) fn are_set(&self) -> Option<bool> {
        let set = self.0.set.borrow();
        let are_set = set.as_ref().is_some_and(|set| !*set.is_over().borrow());
        (!self.0.wanted.borrow().is_empty()).then_some(are_set)
    }
}

impl State {
    /// Sets the rules for what is captured, beside those that are set: so no connection passes by between.
    async fn prepare(self: &Rc<Self>, captured: &[Captured]) -> Result<Option<Interception>> {
        let rules = Ruleset::new(number(), captured.to_vec());
        if !rules.routes().is_empty() && !self.cleans.replace(true) {
            spawn_local(Rc::clone(self).remove_left_over());
        }
        for need in rules.needs() {
            if !self.open.borrow().iter().any(|set| set.rules.open() == Some(need)) {
                let set = run(Ruleset::for_open(number(), need)).await?;
                spawn_local(Rc::clone(self).watch_open(set.is_over(), need));
                self.open.borrow_mut().push(set);
            }
        }
        if rules.is_empty() { Ok(None) } else { run(rules).await.map(Some) }
    }

    /// Removes the rules that are set, now that there are others.
    async fn replace(self: &Rc<Self>, set: Option<Interception>) {
        if let Some(set) = set.as_ref() {
            spawn_local(Rc::clone(self).watch(set.is_over(), set.rules.table()));
        }
        // The gateway may have begun to end meanwhile.
        remove(if self.is_over.get() { set } else { self.set.replace(set) }).await;
    }

    /// Removes the routes of gateways that were killed. If that fails, it is tried again later.
    async fn remove_left_over(self: Rc<Self>) {
        let mut pause = AGAIN_MIN;
        while !self.is_over.get() {
            let removed = spawn_blocking(interception::remove_left_over).await;
            let Err(error) = removed.context("removing routes").flatten() else { break };
            tracing::warn!(
                error = format!("{error:#}"),
                "looking for routes of killed gateways failed; it is tried again"
            );
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AGAIN_MAX);
        }
        self.cleans.set(false);
    }

    /// Sets the rules again when something else has removed them.
    async fn watch(self: Rc<Self>, mut is_over: watch::Receiver<bool>, table: String) {
        wait(&mut is_over).await;
        let is_current = || self.set.borrow().as_ref().is_some_and(|set| set.rules.table() == table);
        if is_current() {
            tracing::error!(
                "nft has ended, and the rules of captured connections with it: they are set again"
            );
        }
        let mut pause = AGAIN_MIN;
        while is_current() {
            {
                let _changing = self.changing.lock().await;
                let wanted = self.wanted.borrow().clone();
                match self.prepare(&wanted).await {
                    Ok(set) => return self.replace(set).await,
                    Err(error) => {
                        tracing::error!(error = format!("{error:#}"), "setting the rules again failed");
                    }
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AGAIN_MAX);
        }
    }

    /// As [`watch`](Self::watch), for what open connections need. They last as long as this gateway.
    async fn watch_open(self: Rc<Self>, mut is_over: watch::Receiver<bool>, need: Open) {
        wait(&mut is_over).await;
        tracing::error!("nft has ended, and the rules of open connections with it: they are set again");
        let mut pause = AGAIN_MIN;
        loop {
            match run(Ruleset::for_open(number(), need)).await {
                Ok(set) => {
                    let mut all = self.open.borrow_mut();
                    is_over = set.is_over();
                    if let Some(place) = all.iter_mut().find(|set| set.rules.open() == Some(need)) {
                        *place = set;
                    }
                }
                Err(error) => {
                    tracing::error!(error = format!("{error:#}"), "setting the rules again failed");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(AGAIN_MAX);
                    continue;
                }
            }
            pause = AGAIN_MIN;
            wait(&mut is_over).await;
        }
    }
}

/// Waits until rules are gone.
async fn wait(is_over: &mut watch::Receiver<bool>) {
    // The sender is dropped behind the end.
    let _ = is_over.wait_for(|is_over| *is_over).await;
}

async fn run(rules: Ruleset) -> Result<Interception> {
    spawn_blocking(move || Interception::set(rules)).await.context("setting rules")?
}

/// Removes rules. Returns once they are gone.
async fn remove(set: Option<Interception>) {
    if let Some(set) = set {
        // It can't fail.
        let _ = spawn_blocking(move || drop(set)).await;
    }
}

/// Returns the number of a new set of rules: the time in microseconds, within the numbers of routing tables
/// that nobody else uses.
pub(crate) fn number() -> u32 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // Two sets of this process may be of one microsecond, but are not as many as microseconds between two processes.
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    0x4000_0000 | ((unix_time().as_micros() as u32).wrapping_add(count) & 0x3fff_ffff)
}
