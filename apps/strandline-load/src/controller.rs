//! Starts client processes together and collects their reports.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use crate::child::ChildProcess;
use crate::job::{Command, Job, Outcome, Progress, Report};

/// Time from the last process's readiness to the first operation.
const START_DELAY: Duration = Duration::from_millis(100);

/// Client processes that are ready or running.
#[derive(Debug)]
pub(crate) struct Fleet {
    workers: Vec<Worker>,
    operations: u64,
}

#[derive(Debug)]
struct Worker {
    child: ChildProcess,
    progress: Progress,
}

impl Fleet {
    /// Starts a process for each job, and waits until all are ready.
    pub(crate) async fn start(jobs: &[Job]) -> Result<Self> {
        let mut workers = Vec::new();
        for job in jobs {
            workers.push(Worker::start(job).await?);
        }
        for worker in &mut workers {
            match worker.child.receive().await? {
                Report::Ready => {}
                Report::Failed(reason) => bail!(reason),
                other => bail!("a client process sent {other:?} before it was ready"),
            }
        }
        Ok(Self { workers, operations: jobs.iter().map(|job| job.count).sum() })
    }

    /// Starts all processes at one moment, and waits until they are done. They keep their sessions until
    /// `release`.
    pub(crate) async fn run(&mut self, title: &str) -> Result<Outcome> {
        let at_unix_ns = start_moment();
        for worker in &mut self.workers {
            worker.child.send(&Command::Start { at_unix_ns }).await?;
        }
        let bar = progress_bar(title, self.operations);
        let (report, mut reports) = tokio::sync::mpsc::unbounded_channel();
        let listening = self.workers.iter_mut().enumerate().map(|(number, worker)| {
            let report = report.clone();
            async move { worker.listen(number, &report).await }
        });
        let mut progress = vec![Progress::default(); listening.len()];
        let all = join_all(listening.collect());
        drop(report);
        tokio::pin!(all);
        let outcomes = loop {
            tokio::select! {
                outcomes = &mut all => break outcomes?,
                Some((number, now)) = reports.recv() => {
                    if let Some(place) = progress.get_mut(number) {
                        *place = now;
                    }
                    show(&bar, &progress);
                }
            }
        };
        bar.finish_and_clear();
        let mut total = Outcome::default();
        outcomes.iter().for_each(|outcome| total.merge(outcome));
        Ok(total)
    }

    /// Kills the processes, and waits until they are gone.
    pub(crate) async fn end(mut self) -> Result<()> {
        for worker in &mut self.workers {
            worker.child.begin_end()?;
        }
        for worker in &mut self.workers {
            worker.child.wait().await?;
        }
        Ok(())
    }

    /// Releases all sessions, and waits for the end of the processes.
    pub(crate) async fn release(mut self) -> Result<()> {
        for worker in &mut self.workers {
            // A process that is gone already holds nothing.
            let _ = worker.child.send(&Command::Release).await;
        }
        for worker in &mut self.workers {
            worker.child.wait().await?;
        }
        Ok(())
    }
}

/// Waits for a few futures in order; each makes progress as long as it is polled here.
async fn join_all<F: Future<Output = Result<Outcome>>>(futures: Vec<F>) -> Result<Vec<Outcome>> {
    let mut pinned: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        let mut pending = false;
        for (future, outcome) in &mut pinned {
            if outcome.is_none() {
                match future.as_mut().poll(cx) {
                    std::task::Poll::Ready(done) => *outcome = Some(done),
                    std::task::Poll::Pending => pending = true,
                }
            }
        }
        if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    pinned.into_iter().filter_map(|(_, outcome)| outcome).collect()
}

impl Worker {
    async fn start(job: &Job) -> Result<Self> {
        let child = ChildProcess::start("a client process", "worker", job).await?;
        Ok(Self { child, progress: Progress::default() })
    }

    async fn listen(
        &mut self,
        number: usize,
        report: &tokio::sync::mpsc::UnboundedSender<(usize, Progress)>,
    ) -> Result<Outcome> {
        loop {
            match self.child.receive().await? {
                Report::Progress(progress) => {
                    self.progress = progress;
                    // The receiver lives as long as it is needed.
                    let _ = report.send((number, progress));
                }
                Report::Done(outcome) => return Ok(*outcome),
                Report::Failed(reason) => bail!(reason),
                Report::Ready => bail!("a client process reported ready twice"),
            }
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "processes agree on the start by the time of day")]
fn start_moment() -> u64 {
    let at = SystemTime::now() + START_DELAY;
    let since_1970 = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns a progress bar, shown if there is a terminal.
fn progress_bar(title: &str, operations: u64) -> ProgressBar {
    let bar = ProgressBar::new(operations);
    let style = ProgressStyle::with_template("  {prefix:<34} {bar:30} {pos:>7}/{len} {msg}");
    if let Ok(style) = style {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_prefix(title.to_owned());
    bar
}

fn show(bar: &ProgressBar, progress: &[Progress]) {
    let sum = |count: fn(&Progress) -> u64| progress.iter().map(count).sum::<u64>();
    let (begun, completed, failed) = (sum(|p| p.begun), sum(|p| p.completed), sum(|p| p.failed));
    bar.set_position(completed + failed);
    let waiting = begun.saturating_sub(completed + failed);
    bar.set_message(match failed {
        0 => format!("{waiting} in progress"),
        _ => format!("{waiting} in progress, {failed} failed"),
    });
}
