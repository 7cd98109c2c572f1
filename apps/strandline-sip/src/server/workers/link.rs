//! A worker's link to its supervisor, which persists its bindings and passes on the changes of others.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use strandline_ipc::{frame, read_frame as read, receive_descriptors};
use strandline_ops::Files;
use tokio::sync::mpsc::UnboundedSender;

use crate::bindings::Journal;
use crate::store::{ALONE, Damage, Each, News, PeerNode, Store, StoreError, worker_name};

use super::frame::{Hello, ToSupervisor, ToWorker};

/// A request from the supervisor.
#[derive(Debug)]
pub(super) enum Order {
    /// The workers that are alive.
    Alive(u64),
    /// An administrative request.
    Request { id: u64, method: String, target: String },
    /// A reloaded configuration.
    Reload { id: u64, files: Files },
    /// The worker may end.
    End,
    /// The supervisor has ended.
    Lost,
}

/// The result of the last commit.
#[derive(Debug, Default)]
struct Answered {
    number: u64,
    error: Option<String>,
    /// No further results will arrive.
    lost: bool,
}

type Answers = Arc<(Mutex<Answered>, Condvar)>;

/// Sends messages to the supervisor, from any thread.
#[derive(Debug, Clone)]
pub(super) struct SupervisorSender(Sender<Vec<u8>>);

impl SupervisorSender {
    pub(super) fn send(&self, head: &ToSupervisor, body: &[u8]) -> io::Result<()> {
        let whole = frame(head, body)?;
        self.0.send(whole).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// The link to the supervisor, which has sent the worker's parameters.
pub(super) struct Link {
    stream: UnixStream,
    pub(super) hello: Hello,
    pub(super) own: u8,
    pub(super) descriptors: Vec<OwnedFd>,
    /// The configuration at the start, and that of the last reload.
    pub(super) started: Files,
    pub(super) last: Option<Files>,
    to_supervisor: SupervisorSender,
    answers: Answers,
}

impl Link {
    /// Opens the link. The supervisor is connected to standard input.
    pub(super) fn open(own: u8) -> Result<Self> {
        let stream =
            std::io::stdin().as_fd().try_clone_to_owned().context("duplicating the supervisor's socket")?;
        let mut stream = UnixStream::from(stream);
        let descriptors = receive_descriptors(&stream).context(
            "no supervisor on standard input: --worker is only for processes that the supervisor starts",
        )?;
        let (hello, started) = match read(&mut stream).context("reading from the supervisor")? {
            (ToWorker::Hello(hello), files) => (hello, Files::from_bytes(&files)?),
            _ => bail!("the supervisor is another version of this program"),
        };
        let last = match hello.reloaded {
            false => None,
            true => match read(&mut stream).context("reading the configuration from the supervisor")? {
                (ToWorker::Reload { .. }, files) => Some(Files::from_bytes(&files)?),
                _ => bail!("the supervisor is another version of this program"),
            },
        };
        let (sender, frames) = channel::<Vec<u8>>();
        let mut out = stream.try_clone()?;
        let write = move || {
            use std::io::Write;
            // If the supervisor has ended, the reading thread notices.
            while let Ok(whole) = frames.recv()
                && out.write_all(&whole).is_ok()
            {}
        };
        std::thread::Builder::new().name("writer".to_owned()).spawn(write)?;
        let (to_supervisor, answers) = (SupervisorSender(sender), Answers::default());
        Ok(Self { stream, hello, own, descriptors, started, last, to_supervisor, answers })
    }

    pub(super) fn to_supervisor(&self) -> SupervisorSender {
        self.to_supervisor.clone()
    }

    /// The store of bindings.
    pub(super) fn store(&self) -> RelayStore {
        RelayStore {
            to_supervisor: self.to_supervisor.clone(),
            answers: Arc::clone(&self.answers),
            number: 0,
        }
    }

    /// Loads the initial state. Call it once, before [`follow`](Self::follow).
    pub(super) fn load(&mut self, each: &mut Each<'_>) -> Result<()> {
        loop {
            let (head, body) = read(&mut self.stream).context("reading bindings from the supervisor")?;
            match head {
                ToWorker::State { worker } => {
                    let name = if worker == self.own { String::new() } else { worker_name(ALONE, worker) };
                    Journal::read(&body).for_each(|(aor, state)| each(&name, aor, state));
                }
                ToWorker::Loaded => return Ok(()),
                _ => bail!("the supervisor is another version of this program"),
            }
        }
    }

    /// Starts the thread that reads from the supervisor. It passes changes to `report`, and everything else to
    /// `orders`.
    pub(super) fn follow(
        self,
        report: impl FnMut(News) + Send + 'static,
        orders: UnboundedSender<Order>,
    ) -> io::Result<()> {
        let Self { stream, hello, own, to_supervisor, answers, .. } = self;
        let count = hello.count;
        let mut reader = Reader { stream, own, count, to_supervisor, answers, report, orders };
        let run = move || {
            let why = reader.run();
            tracing::info!(%why, "connection to the supervisor lost");
            reader.lost();
        };
        std::thread::Builder::new().name("supervisor".to_owned()).spawn(run).map(|_| ())
    }
}

struct Reader<F> {
    stream: UnixStream,
    own: u8,
    count: u8,
    to_supervisor: SupervisorSender,
    answers: Answers,
    report: F,
    orders: UnboundedSender<Order>,
}

impl<F: FnMut(News)> Reader<F> {
    /// Reads messages, and returns the error that ended the link.
    fn run(&mut self) -> io::Error {
        loop {
            let result = read(&mut self.stream).and_then(|(head, body)| self.take(head, body));
            if let Err(error) = result {
                return error;
            }
        }
    }

    fn take(&mut self, head: ToWorker, body: Vec<u8>) -> io::Result<()> {
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        match head {
            ToWorker::Changes { number, worker } => {
                let node = worker_name(ALONE, worker);
                (self.report)(News::Changes { node, changes: body });
                let (known, knows) = channel();
                (self.report)(News::Known(known));
                // The receiver may have ended.
                if knows.recv().is_ok() {
                    self.to_supervisor.send(&ToSupervisor::Merged { number }, &[])?;
                }
                Ok(())
            }
            ToWorker::Committed { number, error } => {
                let mut answered = self.answers.0.lock().unwrap_or_else(PoisonError::into_inner);
                (answered.number, answered.error) = (number, error);
                self.answers.1.notify_all();
                Ok(())
            }
            ToWorker::Alive { workers } => {
                let others = (0..self.count).filter(|worker| *worker != self.own);
                let node = |worker| PeerNode {
                    name: worker_name(ALONE, worker),
                    address: String::new(),
                    is_alive: workers >> worker & 1 == 1,
                };
                (self.report)(News::Nodes(others.map(node).collect()));
                self.orders.send(Order::Alive(workers)).map_err(gone)
            }
            ToWorker::Request { id, method, target } => {
                self.orders.send(Order::Request { id, method, target }).map_err(gone)
            }
            ToWorker::Reload { id } => {
                self.orders.send(Order::Reload { id, files: Files::from_bytes(&body)? }).map_err(gone)
            }
            ToWorker::End => self.orders.send(Order::End).map_err(gone),
            ToWorker::Hello(_) | ToWorker::State { .. } | ToWorker::Loaded => {
                Err(io::Error::other("the supervisor is another version of this program"))
            }
        }
    }

    fn lost(&self) {
        self.answers.0.lock().unwrap_or_else(PoisonError::into_inner).lost = true;
        self.answers.1.notify_all();
        // The receiver may have ended.
        let _ = self.orders.send(Order::Lost);
    }
}

/// The supervisor's store, as used by the thread that persists bindings.
#[derive(Debug)]
pub(super) struct RelayStore {
    to_supervisor: SupervisorSender,
    answers: Answers,
    number: u64,
}

impl Store for RelayStore {
    fn load(&mut self, _: &mut Each<'_>) -> Result<Damage, StoreError> {
        Ok(Damage::default())
    }

    fn commit(&mut self, changes: &Journal) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        let what = "writing bindings";
        self.number += 1;
        let number = self.number;
        let sent = self.to_supervisor.send(&ToSupervisor::Commit { number }, changes.as_bytes());
        sent.map_err(|error| StoreError::new(what, error))?;
        let answered = self.answers.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |answered: &mut Answered| answered.number < number && !answered.lost;
        let mut answered = self.answers.1.wait_while(answered, waits).unwrap_or_else(PoisonError::into_inner);
        if answered.number < number {
            return Err(StoreError {
                is_final: true,
                ..StoreError::new(what, "the connection to the supervisor is closed")
            });
        }
        answered.error.take().map_or(Ok(()), |error| Err(StoreError::new(what, error)))
    }

    fn idle(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }
}
