//! The emulator: a dedicated thread between the devices.
//!
//! It sleeps until a packet arrives or the next one is due. A wake-up takes the kernel some 20 microseconds, so
//! the thread wakes that much early and spins for the rest. With dense traffic it would always spin: it then
//! sleeps for a fixed short time and handles the packets gathered meanwhile, which leaves processor time to the
//! programs.

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

/// For sleeps longer than this, the kernel is asked how long the thread waited for a processor.
const LONG_SLEEP_NS: u64 = 40_000;

/// The emulator's waiting strategy.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    /// How long before a packet is due the thread stops sleeping.
    pub spin: Duration,
    /// How long the thread sleeps in dense traffic, regardless of arriving or due packets.
    pub gather: Duration,
}

/// The emulator's counters.
#[derive(Debug, Clone)]
pub struct Counters {
    /// For each path, its directions to the right and to the left.
    pub paths: Vec<[ChannelCounters; 2]>,
    /// Time since the emulator was started.
    pub elapsed: Duration,
    /// Processor time used by the emulator.
    pub cpu: Duration,
}

enum Command {
    Begin(Vec<Entry>),
    Change(TargetedChange),
    Count(Sender<Counters>),
    Stop(Sender<Counters>),
}

/// Handle to the emulator's thread, which stops when the handle is dropped.
#[derive(Debug)]
pub struct Emulator {
    commands: Sender<Command>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<io::Result<()>>>,
    thread_id: i32,
}

impl Emulator {
    /// Starts the emulator between devices.
    ///
    /// # Errors
    /// If the system gives no thread or event descriptor.
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
            // The receiver is gone if the start failed.
            let _ = told.send(rustix::thread::gettid().as_raw_nonzero().get());
            work.run()
        })?;
        let thread_id = thread_id.recv().context("starting the emulator's thread")?;
        Ok(Self { commands, wake, thread: Some(thread), thread_id })
    }

    /// Returns the thread's id in the kernel.
    #[must_use]
    pub fn thread_id(&self) -> i32 {
        self.thread_id
    }

    /// Restricts the thread to one processor.
    ///
    /// # Errors
    /// If there is no such processor, or this process may not use it.
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

    /// Applies a change now.
    pub fn change(&self, change: TargetedChange) {
        self.send(Command::Change(change));
    }

    /// Returns the counters so far.
    ///
    /// # Errors
    /// If the emulator has stopped.
    pub fn count(&self) -> Result<Counters> {
        let (reply, answer) = channel();
        self.send(Command::Count(reply));
        answer.recv().map_err(|_| anyhow!("the emulator has stopped"))
    }

    /// Stops the emulator; returns its counters.
    ///
    /// # Errors
    /// If the emulator had stopped, with the reason.
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
        // If the thread has stopped, the caller notices when waiting for the answer.
        let _ = self.commands.send(command);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.send(Command::Stop(channel().0));
        // `stop` reports why the thread ended.
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
        // Ends sleeps on time, not up to 50 microseconds later.
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

    /// Sleeps for the gathering time; only commands end it early.
    fn gather(&mut self) -> io::Result<()> {
        let time = timespec(u64::try_from(self.waiting.gather.as_nanos()).unwrap_or(u64::MAX));
        self.wait(&mut [PollFd::new(&*Arc::clone(&self.wake), PollFlags::IN)], Some(&time))?;
        Ok(())
    }

    /// Sleeps until a packet arrives, shortly before one is due, or until a command arrives.
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

    /// Waits for one of several descriptors, the first of which signals commands. Returns how many are ready.
    fn wait(&self, waiting_for: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<usize> {
        let ready = match poll(waiting_for, timeout) {
            Ok(ready) => ready,
            Err(rustix::io::Errno::INTR) => 1,
            Err(error) => return Err(error.into()),
        };
        if waiting_for.first().is_some_and(|wake| !wake.revents().is_empty()) {
            // Commands are read from the channel afterwards, so none is missed.
            let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
        }
        Ok(ready)
    }

    /// Executes commands. Returns false if one of them stops the emulator.
    fn obey(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Begin(schedule)) => self.begin(&schedule),
                Ok(Command::Change(change)) => self.change(&change),
                Ok(Command::Count(reply)) => {
                    // The requester may be gone.
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
                // A queue limit given as a time depends on the rate after the preceding changes.
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
