//! A test from its beginning to the exchange of figures, the same on both sides.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Interval as Ticks, MissedTickBehavior, interval, sleep_until, timeout};

use super::channel::Channel;
use super::flow::{Ended, Flow, Link, Load};
use super::path_events::PathEvent;
use super::protocol::{Length, Message, Parameters, Role, SECONDS_MAX, SideReport};
use super::shards::Shards;
use super::tally::now;
use super::track::{Interval, Tracker};

/// Maximum interval between samples of the flows.
const LOOK: Duration = Duration::from_millis(100);
/// Time without any traffic after which a test has failed.
const STALL_MAX: Duration = Duration::from_secs(60);
/// Time that the other side may take longer than the test, to deliver queued data and to send its figures.
const GRACE: Duration = Duration::from_secs(60);
/// What the other side may take longer after Ctrl-C: somebody is waiting.
const HURRY: Duration = Duration::from_secs(3);

/// Time that the reason may arrive after the end of a flow.
const REASON: Duration = Duration::from_millis(500);

/// The inputs of a test.
pub(crate) struct Session {
    pub(crate) role: Role,
    pub(crate) parameters: Parameters,
    pub(crate) links: Vec<Link>,
    pub(crate) shards: Shards,
    /// Interval of reports; zero: never.
    pub(crate) every: Duration,
    /// Receives each interval.
    pub(crate) observe: Box<dyn FnMut(Interval) + Send>,
    /// Turns true when the user interrupts the test.
    pub(crate) interrupt: watch::Receiver<bool>,
}

/// The outcome of a test. It has figures even if the test failed.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) own: SideReport,
    pub(crate) peer: Option<SideReport>,
    pub(crate) failure: Option<String>,
    pub(crate) interrupted: bool,
    /// Path changes, if requested.
    pub(crate) path_changes: Vec<PathEvent>,
}

/// A running test.
struct Running {
    role: Role,
    flows: Vec<Flow>,
    load: Load,
    workers: JoinSet<Ended>,
    tracker: Tracker,
    every: Duration,
    observe: Box<dyn FnMut(Interval) + Send>,
    congestion: Option<String>,
    shards: Shards,
    /// The other side's figures, once received.
    peer: Option<SideReport>,
    reported: bool,
    interrupted: bool,
    /// Time by which the test has to be over.
    deadline: Instant,
}

/// The times of the next actions.
struct Timers {
    omit_end: Option<Instant>,
    send_end: Option<Instant>,
    /// Time to send after the warm-up, however late its end was noticed.
    sending: Option<Duration>,
    look: Ticks,
    emit: Option<Ticks>,
    passed: Instant,
}

/// Runs a test. Both sides call it when they know that all flows have joined.
pub(crate) async fn run(session: Session, channel: &mut Channel) -> Result<Outcome> {
    let mut interrupt = session.interrupt.clone();
    let mut running = Running::start(session)?;
    let mut failure = None;
    if let Err(error) = running.until_done(channel, &mut interrupt).await {
        failure = Some(format!("{error:#}"));
        // The other side is sent the reason, if it still listens.
        let reason = Message::Refused { reason: format!("the peer gave up: {error:#}") };
        let _ = timeout(HURRY, channel.send(&reason)).await;
        for flow in &running.flows {
            flow.link.abort();
        }
    }
    running.emit();
    Ok(Outcome {
        own: running.report()?,
        peer: running.peer,
        failure,
        interrupted: running.interrupted,
        path_changes: Vec::new(),
    })
}

impl Running {
    fn start(session: Session) -> Result<Self> {
        let Session { role, parameters, links, shards, every, observe, .. } = session;
        let congestion = links.first().and_then(Link::congestion);
        let flows: Vec<Flow> = links.into_iter().map(Flow::new).collect();
        let load = Load::new(parameters.clone());
        let mut workers = JoinSet::new();
        let tracker = Tracker::start(&flows, parameters.omit_seconds > 0.0)?;
        for (number, flow) in (0_u16..).zip(&flows) {
            if parameters.receives(role) {
                flow.start_receiver(number, &parameters, &mut workers);
            }
            if parameters.sends(role) {
                flow.start_sender(number, &load, &mut workers);
            }
        }
        let seconds = match parameters.length {
            Length::Seconds(seconds) => seconds + parameters.omit_seconds,
            Length::Bytes(_) => SECONDS_MAX,
        };
        let deadline = now() + Duration::try_from_secs_f64(seconds)? + GRACE;
        let (peer, reported, interrupted) = (None, false, false);
        Ok(Self {
            role,
            flows,
            load,
            workers,
            tracker,
            every,
            observe,
            congestion,
            shards,
            peer,
            reported,
            interrupted,
            deadline,
        })
    }

    async fn until_done(
        &mut self,
        channel: &mut Channel,
        interrupt: &mut watch::Receiver<bool>,
    ) -> Result<()> {
        let mut timers = Timers::new(&self.load.parameters, self.every)?;
        loop {
            if self.workers.is_empty() && !self.reported {
                self.send_report(channel).await?;
            }
            if self.reported && self.peer.is_some() {
                return Ok(());
            }
            tokio::select! {
                Some(ended) = self.workers.join_next() => {
                    if let Err(error) = self.on_ended(ended.context("the task of a flow failed")?) {
                        return Err(refusal_reason(channel).await.unwrap_or(error));
                    }
                }
                message = channel.recv() => self.on_message(message?)?,
                () = until(timers.omit_end) => {
                    self.emit();
                    self.tracker.end_warm_up(&self.flows)?;
                    timers.end_warm_up();
                }
                () = until(timers.send_end) => {
                    timers.send_end = None;
                    self.tracker.time_is_over(&self.flows);
                    self.load.stop.store(true, Ordering::Relaxed);
                }
                _ = timers.look.tick() => {
                    if self.tracker.look(&self.flows) || self.workers.is_empty() {
                        timers.passed = now();
                    }
                    if timers.passed.elapsed() > STALL_MAX {
                        bail!("no data was transferred for {} s", STALL_MAX.as_secs());
                    }
                }
                () = tick(&mut timers.emit) => self.emit(),
                () = until(Some(self.deadline)) => bail!("the peer does not finish"),
                () = interrupted(interrupt), if !self.interrupted => {
                    self.on_interrupt(channel).await?;
                }
            }
        }
    }

    fn on_ended(&mut self, ended: Ended) -> Result<()> {
        self.tracker.ended(ended.flow, ended.sender, ended.at);
        ended.result.with_context(|| {
            let what = if ended.sender { "sending" } else { "receiving" };
            format!("{what} on flow {}", ended.flow)
        })?;
        if self.workers.is_empty() {
            self.tracker.look(&self.flows);
            self.deadline = self.deadline.min(now() + GRACE);
        }
        Ok(())
    }

    fn on_message(&mut self, message: Message) -> Result<()> {
        match message {
            Message::Finished(report) => {
                let flows = self.flows.len();
                if report.flows.len() != flows || self.peer.is_some() {
                    bail!("the peer reported {} flows instead of {flows}", report.flows.len());
                }
                self.peer = Some(report);
                Ok(())
            }
            Message::Stop {} if self.role == Role::Server => {
                self.load.stop.store(true, Ordering::Relaxed);
                Ok(())
            }
            Message::Refused { reason } => Err(anyhow!(reason)),
            _ => bail!("the peer sent an unexpected control message"),
        }
    }

    /// On the client, ends the test early and in order. On the server, fails, since it can't wait for its
    /// clients.
    async fn on_interrupt(&mut self, channel: &mut Channel) -> Result<()> {
        self.interrupted = true;
        if self.role == Role::Server {
            bail!("the server was stopped");
        }
        self.load.stop.store(true, Ordering::Relaxed);
        self.deadline = self.deadline.min(now() + HURRY);
        if self.load.parameters.receives(self.role) {
            channel.send(&Message::Stop {}).await?;
        }
        Ok(())
    }

    /// Sends the figures to the other side. The server does so last, when all of its processor time has been
    /// used.
    async fn send_report(&mut self, channel: &mut Channel) -> Result<()> {
        if self.role == Role::Client || self.peer.is_some() {
            let report = self.report()?;
            channel.send(&Message::Finished(report)).await?;
            self.reported = true;
        }
        Ok(())
    }

    fn report(&self) -> Result<SideReport> {
        Ok(self.tracker.report(self.congestion.clone(), &self.shards)?)
    }

    fn emit(&mut self) {
        if let Some(interval) = self.tracker.interval(&self.flows) {
            (self.observe)(interval);
        }
    }
}

impl Timers {
    fn new(parameters: &Parameters, every: Duration) -> Result<Self> {
        let begin = now();
        let omit = Duration::try_from_secs_f64(parameters.omit_seconds)?;
        let sending = match parameters.length {
            Length::Seconds(seconds) => Some(Duration::try_from_secs_f64(seconds)?),
            Length::Bytes(_) => None,
        };
        Ok(Self {
            omit_end: (!omit.is_zero()).then(|| begin + omit),
            send_end: sending.filter(|_| omit.is_zero()).map(|sending| begin + sending),
            sending,
            look: ticks(LOOK),
            emit: (!every.is_zero()).then(|| ticks(every)),
            passed: begin,
        })
    }

    fn end_warm_up(&mut self) {
        self.omit_end = None;
        self.send_end = self.sending.map(|sending| now() + sending);
        if let Some(emit) = &mut self.emit {
            emit.reset();
        }
    }
}

/// Returns the other side's reason for ending a test, if it sends one, which may be after the end of the
/// flows.
async fn refusal_reason(channel: &mut Channel) -> Option<anyhow::Error> {
    match timeout(REASON, channel.recv()).await {
        Ok(Ok(Message::Refused { reason })) => Some(anyhow!(reason)),
        _ => None,
    }
}

/// Waits until the user interrupts the test.
pub(crate) async fn interrupted(interrupt: &mut watch::Receiver<bool>) {
    if interrupt.wait_for(|&wanted| wanted).await.is_err() {
        // Nobody is left who could interrupt.
        std::future::pending().await
    }
}

/// Returns a ticker whose first tick is one period from now.
fn ticks(every: Duration) -> Ticks {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    ticks
}

async fn tick(ticks: &mut Option<Ticks>) {
    match ticks {
        Some(ticks) => {
            ticks.tick().await;
        }
        None => std::future::pending().await,
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
