//! The emulator: a thread of its own between the devices.
//!
//! It sleeps until a packet comes or the next one is due. A wake-up takes the kernel some 20 microseconds, so it wakes
//! that much early and spins for the rest. Where packets are dense it would always spin: there it sleeps for a fixed
//! short time and handles what has gathered, so that it leaves some of the processor to the programs.

mod channel;
mod clock;
mod pace;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::thread::{CpuSet, Pid, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use self::channel::Channel;
pub use self::channel::ChannelCounters;
use self::clock::{Clock, RunDelay};
use self::pace::Pace;
use super::device::Devices;
use super::schedule::{Direction, Entry, TargetedChange};
use super::topology::Topology;

/// Sleeps longer than this are worth asking the kernel how long the thread waited for a processor.
const LONG_SLEEP_NS: u64 = 40_000;

/// How it waits.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    /// How long before a packet is due it stops sleeping.
    pub spin: Duration,
    /// How long it sleeps where packets are dense, whether one comes or is due or not.
    pub gather: Duration,
}

/// What the emulator did.
#[derive(Debug, Clone)]
pub struct Counters {
    /// For each path its directions to the right and to the left.
    pub paths: Vec<[ChannelCounters; 2]>,
    /// Time since the emulator's start.
    pub elapsed: Duration,
    /// Processor time that the emulator took.
    pub cpu: Duration,
}

enum Command {
    Begin(Vec<Entry>),
    Change(TargetedChange),
    Count(Sender<Counters>),
    Stop(Sender<Counters>),
}

/// The emulator as seen from outside. It stops when this value is dropped.
#[derive(Debug)]
pub struct Emulator {
    commands: Sender<Command>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<io::Result<()>>>,
    thread_id: i32,
}

impl Emulator {
    /// Starts it between devices.
    ///
    /// # Errors
    /// The system gives no thread or no event descriptor.
    pub fn start(devices: Vec<Devices>, topology: &Topology, waiting: Waiting) -> Result<Self> {
        let (commands, received) = channel();
        let (told, thread_id) = channel();
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let clock = Clock::start();
        let paths = devices.into_iter().enumerate().map(|(number, devices)| {
            let new =
                |direction| Channel::new(topology.link(number, direction), topology.mtu, clock.now_ns());
            Path { devices, channels: Direction::BOTH.map(new) }
        });
        let work =
            Work { paths: paths.collect(), clock, waiting, commands: received, wake: Arc::clone(&wake) };
        let thread = std::thread::Builder::new().name("netem".to_owned()).spawn(move || {
            // Nobody waits for the number if the start failed.
            let _ = told.send(rustix::thread::gettid().as_raw_nonzero().get());
            work.run()
        })?;
        let thread_id = thread_id.recv().context("starting the emulator's thread")?;
        Ok(Self { commands, wake, thread: Some(thread), thread_id })
    }

    /// The thread's number in the kernel.
    #[must_use]
    pub fn thread_id(&self) -> i32 {
        self.thread_id
    }

    /// Lets the thread run on one processor only.
    ///
    /// # Errors
    /// There is no such processor, or this process may not use it.
    pub fn keep_to(&self, core: usize) -> Result<()> {
        let mut cores = CpuSet::new();
        if core < CpuSet::MAX_CPU {
            cores.set(core);
        }
        sched_setaffinity(Pid::from_raw(self.thread_id), &cores)
            .with_context(|| format!("running the emulator on processor {core}"))
    }

    /// Starts the clock of a schedule.
    pub fn begin(&self, schedule: Vec<Entry>) {
        self.send(Command::Begin(schedule));
    }

    /// Makes a change now.
    pub fn change(&self, change: TargetedChange) {
        self.send(Command::Change(change));
    }

    /// What it did so far.
    ///
    /// # Errors
    /// It has stopped.
    pub fn count(&self) -> Result<Counters> {
        let (reply, answer) = channel();
        self.send(Command::Count(reply));
        answer.recv().map_err(|_| anyhow!("the emulator has stopped"))
    }

    /// Stops it; tells what it did.
    ///
    /// # Errors
    /// It had stopped, and why.
    pub fn stop(mut self) -> Result<Counters> {
        let (reply, answer) = channel();
        self.send(Command::Stop(reply));
        let counters = answer.recv();
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Ok(Err(error))) => return Err(error).context("the emulator stopped"),
            Some(Err(_)) => return Err(anyhow!("the emulator's thread panicked")),
            Some(Ok(Ok(()))) | None => {}
        }
        counters.map_err(|_| anyhow!("the emulator has stopped"))
    }

    fn send(&self, command: Command) {
        // If it has stopped, whoever waits for an answer learns it.
        let _ = self.commands.send(command);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.send(Command::Stop(channel().0));
        // Why it stopped is told by `stop`.
        let _ = thread.join();
    }
}

struct Path {
    devices: Devices,
    channels: [Channel; 2],
}

struct Work {
    paths: Vec<Path>,
    clock: Clock,
    waiting: Waiting,
    commands: Receiver<Command>,
    wake: Arc<OwnedFd>,
}

impl Work {
    fn run(mut self) -> io::Result<()> {
        // Sleeps end when they are to end, not up to 50 microseconds later.
        rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))?;
        let mut run_delay = RunDelay::of_this_thread();
        let mut pace = Pace::default();
        loop {
            let mut busy = false;
            for path in &mut self.paths {
                let Path { devices: Devices { left, right }, channels: [to_right, to_left] } = path;
                busy |= to_right.take(&*left, &self.clock)?;
                busy |= to_left.take(&*right, &self.clock)?;
                busy |= to_right.deliver(&*right, &self.clock);
                busy |= to_left.deliver(&*left, &self.clock);
            }
            if !self.obey() {
                return Ok(());
            }
            if busy {
                continue;
            }
            let handled =
                self.paths.iter().flat_map(|path| &path.channels).map(|channel| channel.handled).sum();
            if pace.is_dense(self.clock.now_ns(), handled) {
                self.gather()?;
            } else {
                self.sleep(&mut run_delay)?;
            }
        }
    }

    /// Sleeps for a moment, whatever comes but commands.
    fn gather(&mut self) -> io::Result<()> {
        let time = timespec(u64::try_from(self.waiting.gather.as_nanos()).unwrap_or(u64::MAX));
        self.wait(&mut [PollFd::new(&*Arc::clone(&self.wake), PollFlags::IN)], Some(&time))?;
        Ok(())
    }

    /// Sleeps until a packet comes, shortly before one is due, or a command comes.
    fn sleep(&mut self, run_delay: &mut RunDelay) -> io::Result<()> {
        let channels = self.paths.iter().flat_map(|path| &path.channels);
        let due_ns = channels.filter_map(|channel| channel.link.next_arrival_ns()).min();
        let from_ns = self.clock.now_ns();
        let spin_ns = u64::try_from(self.waiting.spin.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = due_ns.map(|due_ns| due_ns.saturating_sub(spin_ns));
        if until_ns.is_some_and(|until_ns| until_ns <= from_ns) {
            return Ok(());
        }
        let timeout = until_ns.map(|until_ns| timespec(until_ns - from_ns));
        let wake = Arc::clone(&self.wake);
        let mut waiting_for = vec![PollFd::new(&*wake, PollFlags::IN)];
        for path in &self.paths {
            for device in [&path.devices.left, &path.devices.right] {
                waiting_for.push(PollFd::from_borrowed_fd(device.as_fd(), PollFlags::IN));
            }
        }
        let ready = self.wait(&mut waiting_for, timeout.as_ref())?;
        let to_ns = self.clock.now_ns();
        let woken_late_ns = match until_ns {
            Some(until_ns) if ready == 0 => to_ns.saturating_sub(until_ns),
            _ if to_ns - from_ns < LONG_SLEEP_NS => to_ns - from_ns,
            _ => run_delay.added_ns(),
        };
        for channel in self.paths.iter_mut().flat_map(|path| &mut path.channels) {
            channel.slept(from_ns, to_ns, woken_late_ns);
        }
        Ok(())
    }

    /// Waits for one of some descriptors, the first of which is that of commands. Returns how many are ready.
    fn wait(&self, waiting_for: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<usize> {
        let ready = match poll(waiting_for, timeout) {
            Ok(ready) => ready,
            Err(rustix::io::Errno::INTR) => 1,
            Err(error) => return Err(error.into()),
        };
        if waiting_for.first().is_some_and(|wake| !wake.revents().is_empty()) {
            // Commands are taken from the channel after this, so none is slept through.
            let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
        }
        Ok(ready)
    }

    /// Carries out what was asked for. False if that was to stop.
    fn obey(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Begin(schedule)) => self.begin(&schedule),
                Ok(Command::Change(change)) => self.change(&change),
                Ok(Command::Count(reply)) => {
                    // Whoever asked may have gone.
                    let _ = reply.send(self.counters());
                }
                Ok(Command::Stop(reply)) => {
                    let _ = reply.send(self.counters());
                    return false;
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn begin(&mut self, schedule: &[Entry]) {
        let now_ns = self.clock.now_ns();
        for (number, path) in self.paths.iter_mut().enumerate() {
            for (direction, channel) in Direction::BOTH.into_iter().zip(&mut path.channels) {
                let link = channel.link.link();
                // A queue limit in time depends on the rate that the changes before it made.
                let mut config = link.config().clone();
                for Entry { at, change, .. } in schedule {
                    if !change.target.includes(number + 1, direction) {
                        continue;
                    }
                    let at_ns = now_ns.saturating_add(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX));
                    for change in change.settings.changes(&config) {
                        link.schedule(at_ns, change);
                    }
                    config.rate_bps = change.settings.rate_bps.unwrap_or(config.rate_bps);
                }
            }
        }
    }

    fn change(&mut self, change: &TargetedChange) {
        for (number, path) in self.paths.iter_mut().enumerate() {
            for (direction, channel) in Direction::BOTH.into_iter().zip(&mut path.channels) {
                if change.target.includes(number + 1, direction) {
                    let link = channel.link.link();
                    for change in change.settings.changes(&link.config().clone()) {
                        link.change(change);
                    }
                }
            }
        }
    }

    fn counters(&mut self) -> Counters {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        let paths = self.paths.iter_mut().map(|path| path.channels.each_mut().map(Channel::counters));
        Counters {
            paths: paths.collect(),
            elapsed: Duration::from_nanos(self.clock.now_ns()),
            cpu: Duration::new(
                u64::try_from(cpu.tv_sec).unwrap_or_default(),
                u32::try_from(cpu.tv_nsec).unwrap_or_default(),
            ),
        }
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

#[cfg(test)]
mod tests;
