//! A client process: reads its job, prepares, starts when told, and reports.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use strandline_measure::{Alarm, Schedule, now, raise_open_files};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, Stdin, Stdout};
use tokio::task::LocalSet;

use crate::client::{Client, Session, Taken};
use crate::exchange::Exchange;
use crate::job::{Command, Job, Outcome, Report};

/// Interval between progress reports to the controller.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// Maximum number of sessions that are set up at once before the start.
const CONNECTING_MAX: usize = 64;

/// Runs a client process.
///
/// # Errors
/// If the controller is gone.
pub(crate) fn run() -> Result<()> {
    raise_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let mut line =
            Line { input: BufReader::new(tokio::io::stdin()).lines(), output: tokio::io::stdout() };
        if let Err(error) = work(&mut line).await {
            line.send(&Report::Failed(format!("{error:#}"))).await?;
        }
        Ok(())
    })
}

/// The connection to the controller.
struct Line {
    input: Lines<BufReader<Stdin>>,
    output: Stdout,
}

impl Line {
    async fn send(&mut self, report: &Report) -> Result<()> {
        let mut text = serde_json::to_string(report)?;
        text.push('\n');
        self.output.write_all(text.as_bytes()).await?;
        Ok(self.output.flush().await?)
    }

    async fn receive(&mut self) -> Result<String> {
        self.input.next_line().await?.context("the controller has exited")
    }
}

async fn work(line: &mut Line) -> Result<()> {
    let job: Job = serde_json::from_str(&line.receive().await?).context("reading the job")?;
    let client = Rc::new(Client::new(&job)?);
    let run = Rc::new(Run { exchange: Exchange::new(&job)?, job, client, state: RefCell::default() });
    run.prepare().await?;
    line.send(&Report::Ready).await?;
    let begin = match serde_json::from_str(&line.receive().await?)? {
        Command::Start { at_unix_ns } => moment(at_unix_ns),
        Command::Release => return Ok(()),
    };
    let operations = tokio::task::spawn_local(operate(Rc::clone(&run), begin));
    let outcome = follow(line, &run, operations).await?;
    line.send(&Report::Done(Box::new(outcome))).await?;
    // Holds its sessions until told to release them, or until the controller is gone.
    let _ = line.receive().await;
    run.state.borrow_mut().held.clear();
    run.client.let_go().await;
    Ok(())
}

/// Reports the progress until all operations are done.
async fn follow(
    line: &mut Line,
    run: &Run,
    mut operations: tokio::task::JoinHandle<Result<()>>,
) -> Result<Outcome> {
    loop {
        tokio::select! {
            done = &mut operations => {
                done.context("an operation panicked")??;
                break;
            }
            () = tokio::time::sleep(REPORT_INTERVAL) => {
                let progress = run.state.borrow().outcome.progress;
                line.send(&Report::Progress(progress)).await?;
            }
        }
    }
    let mut outcome = std::mem::take(&mut run.state.borrow_mut().outcome);
    outcome.tcp_congestion = run.client.tcp_congestion();
    outcome.steps = run.client.take_steps()?;
    outcome.held = run.state.borrow().held.len() as u64;
    Ok(outcome)
}

/// Converts a time since 1970 to the monotonic clock.
#[allow(clippy::disallowed_methods, reason = "processes agree on the start by the time of day")]
fn moment(unix_ns: u64) -> Instant {
    let then = UNIX_EPOCH + Duration::from_nanos(unix_ns);
    now() + then.duration_since(SystemTime::now()).unwrap_or_default()
}

struct Run {
    job: Job,
    exchange: Exchange,
    client: Rc<Client>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    outcome: Outcome,
    /// Sessions that wait for their turn (persistent), or are only held.
    held: VecDeque<Session>,
}

impl Run {
    /// Sets up the persistent sessions, several at a time.
    async fn prepare(&self) -> Result<()> {
        let mut connecting = tokio::task::JoinSet::new();
        let mut left = self.job.persistent;
        while left > 0 || !connecting.is_empty() {
            while left > 0 && connecting.len() < CONNECTING_MAX {
                left -= 1;
                let client = Rc::clone(&self.client);
                connecting.spawn_local(async move { client.connect().await });
            }
            if let Some(session) = connecting.join_next().await {
                self.state.borrow_mut().held.push_back(session??);
            }
        }
        Ok(())
    }

    /// Runs one operation, which was scheduled for the given time.
    async fn one(&self, at: Instant) {
        self.state.borrow_mut().outcome.progress.begun += 1;
        let limit = Duration::from_secs_f64(self.job.timeout_s);
        let result = match tokio::time::timeout(limit, self.attempt()).await {
            Ok(result) => result,
            Err(_) => Err(anyhow::anyhow!("no response within {} s", self.job.timeout_s)),
        };
        let mut state = self.state.borrow_mut();
        match result {
            Ok((session, taken)) => {
                state.outcome.record(taken, at.elapsed());
                if self.job.hold || self.job.persistent > 0 {
                    state.held.push_back(session);
                }
            }
            Err(error) => {
                state.outcome.progress.failed += 1;
                *state.outcome.errors.entry(format!("{error:#}")).or_default() += 1;
            }
        }
    }

    async fn attempt(&self) -> Result<(Session, Taken)> {
        if self.job.persistent == 0 {
            return self.client.operate(self.job.style, &self.exchange).await;
        }
        let session = self.state.borrow_mut().held.pop_front();
        let Some(mut session) = session else {
            bail!("every association is busy: lower the rate or raise --persistent")
        };
        let taken = session.transact(&self.exchange).await?;
        Ok((session, taken))
    }
}

impl Outcome {
    fn record(&mut self, taken: Taken, scheduled_total: Duration) {
        self.progress.completed += 1;
        if let Some(setup) = taken.setup {
            self.setup.record(setup);
        }
        if let Some(transaction) = taken.transaction {
            self.transaction.record(transaction);
        }
        self.total.record(taken.total);
        self.scheduled_total.record(scheduled_total);
    }
}

/// Begins every operation at its time, and waits for all of them.
async fn operate(run: Rc<Run>, begin: Instant) -> Result<()> {
    let begin = begin + Duration::from_secs_f64(run.job.offset_s);
    let schedule = Schedule { begin, rate: run.job.rate };
    let mut alarm = Alarm::new().context("creating a timer")?;
    let mut running = tokio::task::JoinSet::new();
    for number in 0..run.job.count {
        let at = schedule.moment(number);
        alarm.wait_until(at).await?;
        let run = Rc::clone(&run);
        running.spawn_local(async move { run.one(at).await });
        while running.try_join_next().is_some() {}
        // Other tasks get their turn even if the schedule can't be kept.
        tokio::task::yield_now().await;
    }
    while running.join_next().await.is_some() {}
    run.state.borrow_mut().outcome.elapsed_s = begin.elapsed().as_secs_f64();
    Ok(())
}
