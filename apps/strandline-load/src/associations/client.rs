//! A client process: sets up, holds and uses associations or connections, from as many addresses as are
//! needed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use strandline_measure::{Alarm, Schedule, now};
use tokio::task::JoinSet;

use super::line::{Line, add_stack, measure_process};
use super::order::{Answer, ClientPart, Done, Measured, Order};
use super::session::{Host, Session};

/// Maximum number of concurrent operations when there are many: enough to keep both processes busy, and far
/// below what overflows a socket's buffer.
const AT_ONCE: usize = 64;

/// Interval between progress reports to the controller.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// Stride through the held sessions. It is prime, so that each is visited once and neighbours are never
/// visited in a row.
const STRIDE: u64 = 15_485_863;

/// State that the tasks of the process share.
#[derive(Debug)]
struct Shared {
    hosts: Vec<Host>,
    held: RefCell<Vec<Session>>,
    message: Bytes,
    timeout: Duration,
    /// Number of operations of the current order that have begun.
    begun: Cell<u64>,
    done: RefCell<Done>,
    random: Cell<u64>,
}

/// A client process.
#[derive(Debug)]
pub(super) struct Client {
    shared: Rc<Shared>,
}

impl Client {
    pub(super) fn start(part: ClientPart) -> Result<Self> {
        let hosts = part.hosts.iter().map(|local| Host::new(&part, *local)).collect::<Result<Vec<_>>>()?;
        if hosts.is_empty() {
            bail!("the client has no address");
        }
        let shared = Shared {
            hosts,
            held: RefCell::default(),
            message: (0..part.message_bytes).map(|i| b'a' + (i % 26) as u8).collect(),
            timeout: Duration::from_secs_f64(part.timeout_s),
            begun: Cell::new(0),
            done: RefCell::default(),
            random: Cell::new(1),
        };
        Ok(Self { shared: Rc::new(shared) })
    }

    pub(super) async fn obey(&mut self, order: Order, line: &mut Line) -> Result<Answer> {
        let shared = Rc::clone(&self.shared);
        let (count, tasks) = match order {
            Order::Measure => return Ok(Answer::Measured(self.measure()?)),
            Order::Grow { to, .. } => (to.saturating_sub(shared.held.borrow().len() as u64), AT_ONCE),
            Order::Sweep => (shared.held.borrow().len() as u64, AT_ONCE),
            Order::SetUp { count } => (count, 1),
            Order::Transact { count } => (count, 1),
        };
        shared.begun.set(0);
        let begin = now();
        let rate = if let Order::Grow { rate, .. } = order { rate } else { None };
        let schedule = rate.map(|rate| Schedule { begin, rate });
        let mut running = JoinSet::new();
        for _ in 0..tasks {
            let pace = match schedule {
                Some(schedule) => Some((schedule, Alarm::new().context("creating a timer")?)),
                None => None,
            };
            running.spawn_local(operate(Rc::clone(&shared), order, count, pace));
        }
        loop {
            tokio::select! {
                ended = running.join_next() => match ended {
                    Some(ended) => ended.context("an operation panicked")?,
                    None => break,
                },
                () = tokio::time::sleep(REPORT_INTERVAL) => {
                    let so_far = shared.done.borrow().completed;
                    line.send(&Answer::Progress(so_far)).await?;
                }
            }
        }
        let mut done = shared.done.take();
        done.elapsed_s = begin.elapsed().as_secs_f64();
        done.held = shared.held.borrow().len() as u64;
        Ok(Answer::Done(Box::new(done)))
    }

    fn measure(&self) -> Result<Measured> {
        let mut measured = measure_process()?;
        for stack in self.shared.hosts.iter().filter_map(Host::stack) {
            add_stack(&mut measured, stack);
        }
        Ok(measured)
    }
}

/// Runs one of the tasks that share an order: takes the next operation until none is left.
async fn operate(shared: Rc<Shared>, order: Order, count: u64, mut pace: Option<(Schedule, Alarm)>) {
    loop {
        let number = shared.begun.get();
        if number >= count {
            return;
        }
        shared.begun.set(number + 1);
        let turn = match &mut pace {
            Some((schedule, alarm)) => alarm.wait_until(schedule.moment(number)).await,
            None => Ok(()),
        };
        let attempt = shared.attempt(order, number, count);
        let result = match (turn, tokio::time::timeout(shared.timeout, attempt).await) {
            (Err(error), _) => Err(error.into()),
            (_, Ok(result)) => result,
            (_, Err(_)) => Err(anyhow::anyhow!("no response within {:?}", shared.timeout)),
        };
        let mut done = shared.done.borrow_mut();
        match result {
            Ok(()) => done.completed += 1,
            Err(error) => {
                done.failed += 1;
                done.error.get_or_insert_with(|| format!("{error:#}"));
            }
        }
    }
}

impl Shared {
    async fn attempt(&self, order: Order, number: u64, count: u64) -> Result<()> {
        match order {
            Order::Grow { rate, .. } => {
                let begin = now();
                let session = self.set_up(number).await?;
                if rate.is_some() {
                    self.transact(&session).await?;
                    self.done.borrow_mut().total.record(begin.elapsed());
                }
                self.held.borrow_mut().push(session);
                Ok(())
            }
            Order::SetUp { .. } => {
                let session = self.set_up(self.random()).await?;
                self.transact(&session).await?;
                session.end()
            }
            Order::Transact { .. } => {
                let session = self.session(self.random())?;
                self.transact(&session).await
            }
            Order::Sweep => {
                // 128 bits, because a number of operations is multiplied by the stride.
                let place = u128::from(number) * u128::from(STRIDE) % u128::from(count.max(1));
                let session = self.session(place as u64)?;
                self.transact(&session).await
            }
            Order::Measure => Ok(()),
        }
    }

    /// Sets up a session from one of the hosts.
    async fn set_up(&self, which: u64) -> Result<Session> {
        let host =
            self.hosts.get((which % self.hosts.len() as u64) as usize).context("unknown host number")?;
        let begin = now();
        let session = host.connect().await?;
        let mut done = self.done.borrow_mut();
        done.setup.record(begin.elapsed());
        if done.tcp_congestion.is_none() {
            done.tcp_congestion = session.tcp_congestion()?;
        }
        Ok(session)
    }

    async fn transact(&self, session: &Session) -> Result<()> {
        let begin = now();
        session.transact(&self.message).await?;
        self.done.borrow_mut().transaction.record(begin.elapsed());
        Ok(())
    }

    fn session(&self, which: u64) -> Result<Session> {
        let held = self.held.borrow();
        let place = which % (held.len() as u64).max(1);
        held.get(place as usize).cloned().context("no association is held")
    }

    /// Returns a number that selects a host or an association; anything that visits them all will do
    /// (splitmix64).
    fn random(&self) -> u64 {
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests;
