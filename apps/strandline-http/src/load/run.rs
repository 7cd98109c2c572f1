//! Sessions and loops: when each request begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use strandline_measure::{Alarm, Arrivals, now};
use tokio::task::JoinSet;

use super::args::{End, Load, ScheduleKind};
use super::exchange::{Due, exchange};
use super::link::Server;
use super::pool::Pool;
use super::requests::Prepared;

/// Pause of a closed loop after a connection couldn't be set up.
const PAUSE: Duration = Duration::from_millis(100);

/// A test that is ready to run.
#[derive(Debug)]
pub(super) struct Test {
    pub(super) load: Load,
    pub(super) server: Arc<Server>,
    /// Requests, which are sent in turn.
    pub(super) requests: Vec<Prepared>,
    /// Connections of a pool, and requests at the same time on each.
    pub(super) connections: usize,
    pub(super) places: u16,
    pub(super) schedule: ScheduleKind,
    pub(super) seed: u64,
}

/// Runs a test that begins at a given time. Ends with the last request or session.
pub(super) async fn run(test: Arc<Test>, begin: Instant) -> Result<()> {
    match test.load.clone() {
        Load::Sessions { count, rate, .. } => sessions(&test, begin, count, rate).await,
        Load::Closed { concurrency, end } => closed(&test, begin, concurrency, end).await,
        Load::Open { rate, count } => open(&test, begin, rate, count).await,
    }
}

impl Test {
    fn pool(&self) -> Arc<Pool> {
        Arc::new(Pool::new(Arc::clone(&self.server), self.connections, self.places))
    }

    fn arrivals(&self, begin: Instant, rate: f64) -> Arrivals {
        match self.schedule {
            ScheduleKind::Uniform => Arrivals::uniform(begin, rate),
            ScheduleKind::Poisson => Arrivals::poisson(begin, rate, self.seed),
        }
    }

    /// Sends the request with a number. Returns whether a reply was received.
    async fn send(&self, pool: &Pool, session: Option<u64>, number: u64, at: Instant) -> bool {
        let turn = (number % self.requests.len().max(1) as u64) as usize;
        let Some(prepared) = self.requests.get(turn) else { return false };
        match exchange(pool, Due { prepared, session, number, at }).await {
            Ok(_) => true,
            Err(failure) => {
                if session.is_some() {
                    pool.fail(&failure);
                }
                false
            }
        }
    }
}

async fn sessions(test: &Arc<Test>, begin: Instant, count: u64, rate: Option<f64>) -> Result<()> {
    let mut running = JoinSet::new();
    let mut alarm = Alarm::new()?;
    let mut arrivals = rate.map(|rate| test.arrivals(begin, rate));
    for number in 0..count {
        let due = arrivals.as_mut().and_then(Iterator::next).unwrap_or(begin);
        alarm.wait_until(due).await?;
        while running.try_join_next().is_some() {}
        running.spawn(session(Arc::clone(test), number, due));
    }
    running.join_all().await;
    Ok(())
}

/// Sends the bursts of a session, until a request fails.
async fn session(test: Arc<Test>, number: u64, begin: Instant) {
    let Load::Sessions { requests, bursts, think, .. } = &test.load else { return };
    let pool = test.pool();
    let (mut sent, mut replies, mut due) = (0, 0, begin);
    for turn in 0.. {
        let size = bursts.get(turn).or(bursts.last()).copied().map_or(1, u64::from).min(requests - sent);
        let answered = burst(&test, &pool, number, sent..sent + size, due).await;
        sent += size;
        replies += answered;
        if answered < size || sent == *requests {
            break;
        }
        due = now() + *think;
        if !think.is_zero() {
            tokio::time::sleep_until(due.into()).await;
        }
    }
    drop(pool);
    test.server.stats.on_session(begin, replies, replies < *requests);
}

/// Sends requests at once. Returns how many were answered.
async fn burst(
    test: &Arc<Test>,
    pool: &Arc<Pool>,
    session: u64,
    numbers: std::ops::Range<u64>,
    due: Instant,
) -> u64 {
    let mut running = JoinSet::new();
    for number in numbers {
        let (test, pool) = (Arc::clone(test), Arc::clone(pool));
        running.spawn(async move { test.send(&pool, Some(session), number, due).await });
    }
    running.join_all().await.into_iter().filter(|is_answered| *is_answered).count() as u64
}

async fn closed(test: &Arc<Test>, begin: Instant, concurrency: u32, end: End) -> Result<()> {
    let pool = test.pool();
    let next = Arc::new(AtomicU64::new(0));
    let mut running = JoinSet::new();
    for _ in 0..concurrency {
        let (test, pool, next) = (Arc::clone(test), Arc::clone(&pool), Arc::clone(&next));
        running.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let due = now();
                let is_over = match end {
                    End::Requests(count) => number >= count,
                    End::After(duration) => due >= begin + duration,
                };
                if is_over {
                    return;
                }
                if !test.send(&pool, None, number, due).await {
                    // A server that refuses connections isn't asked in a busy loop.
                    tokio::time::sleep(PAUSE).await;
                }
            }
        });
    }
    running.join_all().await;
    Ok(())
}

async fn open(test: &Arc<Test>, begin: Instant, rate: f64, count: u64) -> Result<()> {
    let pool = test.pool();
    let mut running = JoinSet::new();
    let mut alarm = Alarm::new()?;
    for (number, due) in (0..count).zip(test.arrivals(begin, rate)) {
        alarm.wait_until(due).await?;
        while running.try_join_next().is_some() {}
        let (test, pool) = (Arc::clone(test), Arc::clone(&pool));
        running.spawn(async move { test.send(&pool, None, number, due).await });
    }
    running.join_all().await;
    Ok(())
}
