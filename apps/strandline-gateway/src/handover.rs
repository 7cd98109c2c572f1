//! The protocol between a process and its successor: sockets, and notes.
//!
//! The two are joined by a stream on the successor's standard input:
//!
//! | from | what |
//! |---|---|
//! | old | the descriptors, and a frame that says what they are |
//! | new | a byte, once it serves |
//! | old | every second, 4 bytes: how many connections it still has |
//! | new | a note with a socket: a [question](crate::questions) |
//! | new | a note: shut down |
//! | new | a note: read keys and trust again |
//!
//! When the stream ends, the other process is gone.

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use strandline::Owner;
use strandline_ipc::{frame, read_frame, receive_descriptors, receive_note, send_descriptors, send_note};
use tokio::io::{AsyncReadExt, Interest};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::program;
use crate::program_sockets::Sockets;
use crate::questions::{self, QUESTION};

/// The environment variable that makes a process a successor.
const VARIABLE: &str = "STRANDLINE_GATEWAY_TAKEOVER";
/// What a successor says when it serves.
const READY: u8 = b'R';
/// The note that says that all processes are to end.
const END: u8 = b'E';
/// The note that says that keys and trust are to be read again.
const KEYS: u8 = b'K';
/// Time for a successor to start.
const START: Duration = Duration::from_secs(60);
/// Interval and maximum number of checks whether a failed successor has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const LAST_WORDS: u32 = 250;
/// Time in which a successor that is cancelled during its start must end or serve.
const CANCELLED: Duration = Duration::from_secs(5);

/// The identity of a listener across restarts. Several may have an address with port 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListenerId {
    pub(crate) listen: SocketAddr,
    pub(crate) kind: SocketKind,
    pub(crate) number: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SocketKind {
    Tcp,
    Transparent,
    /// With a receive window that is opened later.
    Narrow,
    Udp,
}

/// A predecessor that still has connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Predecessor {
    pub(crate) pid: u32,
    /// By which datagrams are its.
    pub(crate) generation: Option<u8>,
    /// How long its connections may last once it is told to end; `None` if it did not say.
    #[serde(default)]
    pub(crate) drain_timeout_secs: Option<u64>,
}

/// What the descriptors are, in their order.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SocketManifest {
    pub(crate) listeners: Vec<ListenerId>,
    /// The configured address.
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) group: Vec<Owner>,
    /// The process that hands over is the last one, and its stream is standard input.
    pub(crate) predecessors: Vec<Predecessor>,
}

/// What a process takes over.
#[derive(Debug)]
pub(crate) struct Inherited {
    pub(crate) listeners: Vec<(ListenerId, OwnedFd)>,
    pub(crate) admin: Option<(SocketAddr, OwnedFd)>,
    /// The sockets for associations.
    pub(crate) group: Vec<(OwnedFd, Owner)>,
    /// Predecessors, each with the stream to it.
    pub(crate) predecessors: Vec<(Predecessor, UnixStream)>,
}

impl Inherited {
    /// Receives everything on standard input, which is empty afterwards. `None` if this process was not
    /// started for that.
    ///
    /// # Errors
    /// If something else is on standard input.
    pub(crate) fn receive() -> Result<Option<Self>> {
        if std::env::var_os(VARIABLE).is_none() {
            return Ok(None);
        }
        let stream = std::io::stdin().as_fd().try_clone_to_owned().context("duplicating standard input")?;
        let nothing = std::fs::File::open("/dev/null").context("opening /dev/null")?;
        rustix::stdio::dup2_stdin(&nothing).context("replacing standard input")?;
        let mut stream = UnixStream::from(stream);
        let received = receive_descriptors(&stream);
        let mut all = received
            .with_context(|| format!("{VARIABLE} is only for `strandline gateway restart`"))?
            .into_iter();
        let (listing, _) = read_frame(&mut stream).context("reading what is handed over")?;
        let SocketManifest { listeners, admin, group, mut predecessors } = listing;
        let Some(last) = predecessors.pop() else { bail!("the old process is not named") };
        let mut next = || all.next().context("a descriptor is missing");
        let listeners = listeners.into_iter().map(|id| Ok((id, next()?))).collect::<Result<_>>()?;
        let admin = admin.map(|address| Ok::<_, anyhow::Error>((address, next()?))).transpose()?;
        let group = group.into_iter().map(|owner| Ok((next()?, owner))).collect::<Result<_>>()?;
        let predecessors =
            predecessors.into_iter().map(|predecessor| Ok((predecessor, UnixStream::from(next()?))));
        let mut predecessors = predecessors.collect::<Result<Vec<_>>>()?;
        predecessors.push((last, stream));
        Ok(Some(Self { listeners, admin, group, predecessors }))
    }

    /// Takes the socket of a listener, if there is one.
    pub(crate) fn take_listener(&mut self, id: ListenerId) -> Option<OwnedFd> {
        let at = self.listeners.iter().position(|(known, _)| *known == id)?;
        Some(self.listeners.swap_remove(at).1)
    }

    /// Returns what will not be taken: listeners that are not wanted, and the listener for status and metrics
    /// if that has another address now.
    pub(crate) fn leaving(
        &self,
        is_wanted: impl Fn(ListenerId) -> bool,
        admin: Option<SocketAddr>,
    ) -> std::io::Result<Vec<OwnedFd>> {
        let listeners = self.listeners.iter().filter(|(id, _)| !is_wanted(*id)).map(|(_, socket)| socket);
        let listener = self.admin.iter().filter(|(known, _)| Some(*known) != admin).map(|(_, socket)| socket);
        listeners.chain(listener).map(OwnedFd::try_clone).collect()
    }

    /// Takes the listener for status and metrics, if it has this address.
    pub(crate) fn take_admin(&mut self, address: SocketAddr) -> Option<OwnedFd> {
        self.admin.take_if(|(known, _)| *known == address).map(|(_, listener)| listener)
    }
}

/// Tells the process that hands over, over the stream to it, that this one serves.
///
/// # Errors
/// If it has ended.
pub(crate) fn send_ready(mut stream: &UnixStream) -> Result<()> {
    stream.write_all(&[READY]).context("the old process has ended")
}

/// How to start this program again, as it is at its path then.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    /// Returns that of this process. Call it at the start: the path of a file that was replaced can't be found later.
    ///
    /// # Errors
    /// If the system does not tell the path.
    pub(crate) fn current() -> Result<Self> {
        let mut words = std::env::args_os();
        // The path by which it was called may be a link, which leads to another version later.
        let called = words.next().and_then(|name| program::find(&name)).filter(|path| is_this_program(path));
        let path = match called {
            Some(path) => std::path::absolute(path),
            None => std::env::current_exe(),
        };
        let path = path.context("finding the path of this program")?;
        Ok(Self { path, arguments: words.collect() })
    }

    #[cfg(test)]
    pub(crate) const fn of(path: PathBuf, arguments: Vec<OsString>) -> Self {
        Self { path, arguments }
    }

    /// Returns the command that starts it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments);
        command
    }

    /// Starts a successor, hands everything to it, and waits until it serves. Once `cancelled` is ready, the
    /// successor is told to end: one that serves by then is returned all the same.
    ///
    /// # Errors
    /// If it can't be started, or ends before.
    pub(crate) async fn succeed(
        &self,
        listing: &SocketManifest,
        all: &[BorrowedFd<'_>],
        cancelled: impl Future<Output = ()>,
    ) -> Result<Successor> {
        let (ours, theirs) = UnixStream::pair().context("making a pair of sockets")?;
        let mut command = self.command();
        command.env(VARIABLE, "1").stdin(Stdio::from(OwnedFd::from(theirs)));
        let child = command.spawn().with_context(|| format!("starting {}", self.path.display()))?;
        // It is gone from here: otherwise its end would not end the stream.
        drop(command);
        let mut starting = Starting(Some(child));
        send_descriptors(&ours, all).context("handing over the sockets")?;
        (&ours).write_all(&frame(listing, &[])?).context("handing over the sockets")?;
        ours.set_nonblocking(true)?;
        let mut stream = tokio::net::UnixStream::from_std(ours)?;
        let started = {
            let ready = timeout(START, stream.read_u8());
            tokio::pin!(ready, cancelled);
            tokio::select! {
                // First: one that serves at the same time must be told, too.
                biased;
                () = cancelled => {
                    starting.terminate();
                    timeout(CANCELLED, ready).await.ok()
                }
                ready = &mut ready => Some(ready),
            }
        };
        match started {
            Some(Ok(Ok(READY))) => {}
            Some(Ok(_)) => {
                starting.last_words().await;
                bail!("the new process has ended at its start; its log has the reason")
            }
            Some(Err(_)) => bail!("the new process did not start within {} s", START.as_secs()),
            None => bail!("this process is told to end, and the new one did not end in time"),
        }
        let pid = starting.0.take().map_or(0, |child| child.id());
        Ok(Successor { pid, stream, state: watch::Sender::new(SuccessorState::Serving), keys: Notify::new() })
    }
}

/// Returns whether a path leads to the file that this process runs.
fn is_this_program(path: &Path) -> bool {
    let file = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    file(path).is_some_and(|found| file(Path::new("/proc/self/exe")) == Some(found))
}

/// Tells a child to end, which was not waited for: one that has ended keeps its ID.
fn terminate(child: u32) {
    if let Some(pid) = i32::try_from(child).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// A process that is killed unless it is taken out.
struct Starting(Option<Child>);

impl Starting {
    /// Tells the process to end. It may do so once it serves.
    fn terminate(&self) {
        if let Some(child) = &self.0 {
            terminate(child.id());
        }
    }

    /// Lets the process, which has given up, report why, and end by itself.
    async fn last_words(&mut self) {
        for _ in 0..LAST_WORDS {
            if !self.0.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None))) {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The process that serves now.
#[derive(Debug)]
pub(crate) struct Successor {
    pub(crate) pid: u32,
    stream: tokio::net::UnixStream,
    state: watch::Sender<SuccessorState>,
    /// Notified when keys and trust are to be read again.
    keys: Notify,
}

/// How far the process that serves now is, as it has told a predecessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SuccessorState {
    Serving,
    /// It is told to end, and so is this one.
    Ending,
    /// It has ended.
    Gone,
}

impl Successor {
    /// Tells it to end.
    pub(crate) fn terminate(&self) {
        terminate(self.pid);
    }

    /// Tells it every second how many connections are left here, and answers its questions, until it ends.
    pub(crate) async fn attend(&self, count: impl Fn() -> usize, sockets: &Arc<Sockets>) {
        tokio::select! {
            () = self.report_count(count) => {}
            () = self.listen(sockets) => {}
        }
        self.state.send_replace(SuccessorState::Gone);
    }

    async fn report_count(&self, count: impl Fn() -> usize) {
        loop {
            let count = u32::try_from(count()).unwrap_or(u32::MAX);
            match self.stream.try_write(&count.to_be_bytes()) {
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return,
                _ => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
    }

    async fn listen(&self, sockets: &Arc<Sockets>) {
        while self.stream.readable().await.is_ok() {
            match self.stream.try_io(Interest::READABLE, || receive_note(&self.stream)) {
                Ok(Some((END, _))) => drop(self.state.send_replace(SuccessorState::Ending)),
                Ok(Some((KEYS, _))) => self.keys.notify_one(),
                Ok(Some((QUESTION, Some(socket)))) => {
                    let sockets = Arc::clone(sockets);
                    tokio::spawn(async move { questions::answer(socket, &sockets).await });
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Waits until it says that keys and trust are to be read again.
    pub(crate) async fn has_new_keys(&self) {
        self.keys.notified().await;
    }

    /// Returns how far it is.
    pub(crate) fn state(&self) -> SuccessorState {
        *self.state.borrow()
    }

    /// Waits until it is in this state, or has ended.
    pub(crate) async fn has_reached(&self, state: SuccessorState) {
        // The sender lives as long as this value.
        let _ = self.state.subscribe().wait_for(|reached| *reached >= state).await;
    }
}

/// Tells a predecessor to end.
pub(crate) fn send_end(stream: &UnixStream) {
    // One that has ended need not be told.
    let _ = send_note(stream, END, None);
}

/// Lets a predecessor read keys and trust again.
pub(crate) fn send_new_keys(stream: &UnixStream) {
    // One that has ended has no associations.
    let _ = send_note(stream, KEYS, None);
}

/// Reads what a predecessor tells. Returns `None` at its end.
pub(crate) async fn receive_count(stream: &mut tokio::net::UnixStream) -> Option<u32> {
    stream.read_u32().await.ok()
}

/// Tells systemd, if it has started this service, that this process serves, and is the main one.
pub(crate) fn notify_systemd() {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let sent = notify(&path, &format!("READY=1\nMAINPID={}\n", std::process::id()));
    if let Err(error) = sent {
        tracing::warn!(%error, "telling systemd that the gateway serves failed");
    }
}

fn notify(path: &std::ffi::OsStr, text: &str) -> std::io::Result<()> {
    let bytes = path.as_encoded_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => UnixAddress::from_abstract_name(name)?,
        None => UnixAddress::from_pathname(path)?,
    };
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address).map(|_| ())
}
