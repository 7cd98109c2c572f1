//! Hot restart: the state of a process between its predecessors and its successor.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use strandline::{UdpGroup, UdpOptions};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::gateway::Gateway;
use crate::handover::{self, Inherited, ListenerId, Predecessor, Program, SocketManifest, Successor};
use crate::{init, listeners};

/// Predecessors for which the sockets for associations have room.
const PREDECESSORS_MAX: usize = 3;

/// Time for which a process with a successor asks its predecessors: programs wait a second for an answer.
const QUESTIONS_LAST: Duration = Duration::from_secs(2);
/// Time for a process to end beyond that for its connections.
const LAST_STEPS: Duration = Duration::from_secs(10);

/// What a process inherited, and what it will hand over.
pub(crate) struct HotRestart {
    program: Program,
    inherited: RefCell<Option<Inherited>>,
    /// The sockets for associations.
    group: Rc<RefCell<Option<UdpGroup>>>,
    predecessors: RefCell<Vec<PredecessorProcess>>,
    admin: RefCell<Option<Admin>>,
    successor: RefCell<Option<Rc<Successor>>>,
    /// True while a successor starts, or once it has taken over: this process must not change the steering
    /// rule then.
    hands_over: Rc<Cell<bool>>,
    /// Notified when a successor has taken over.
    succeeded: Notify,
    /// Notified when this process must end while its successor starts, and when the start of the successor
    /// has succeeded or failed.
    cancelled: Notify,
    settled: Notify,
}

/// The listener for status and metrics.
struct Admin {
    /// As configured.
    address: SocketAddr,
    socket: OwnedFd,
    task: AbortHandle,
}

/// A predecessor.
struct PredecessorProcess {
    predecessor: Predecessor,
    stream: Arc<std::os::unix::net::UnixStream>,
    connections: Rc<Cell<u32>>,
    is_over: watch::Receiver<bool>,
    task: AbortHandle,
    gateway: Arc<Gateway>,
}

impl Drop for PredecessorProcess {
    fn drop(&mut self) {
        self.task.abort();
        // The stream must not stay open here: its end tells the predecessor that it is alone.
        self.gateway.questions.remove(self.predecessor.pid);
    }
}

impl HotRestart {
    pub(crate) fn new(program: Program, inherited: Option<Inherited>) -> Self {
        Self {
            program,
            inherited: RefCell::new(inherited),
            group: Rc::default(),
            predecessors: RefCell::default(),
            admin: RefCell::default(),
            successor: RefCell::default(),
            hands_over: Rc::default(),
            succeeded: Notify::new(),
            cancelled: Notify::new(),
            settled: Notify::new(),
        }
    }

    /// Takes the socket of a listener that the predecessor had.
    pub(crate) fn take_listener(&self, id: ListenerId) -> Option<OwnedFd> {
        self.inherited.borrow_mut().as_mut()?.take_listener(id)
    }

    /// Returns the listener for status and metrics: that of the predecessor, or a new one.
    ///
    /// # Errors
    /// If it can't listen.
    pub(crate) async fn admin_listener(&self, address: SocketAddr) -> Result<TcpListener> {
        let taken = self.inherited.borrow_mut().as_mut().and_then(|inherited| inherited.take_admin(address));
        match taken {
            Some(listener) => Ok(TcpListener::from_std(listener.into())?),
            None => {
                let leaving = self.leaving(|_| false, Some(address))?;
                let bound = listeners::bind_admin(address, &leaving);
                match bound {
                    Ok(listener) => Ok(listener),
                    // It says more of what is wrong.
                    Err(_) => strandline_ops::http::bind_for("admin", address),
                }
            }
        }
    }

    /// Notes the listener for status and metrics, and the task that serves it.
    pub(crate) fn keep_admin(&self, address: SocketAddr, socket: OwnedFd, task: AbortHandle) {
        *self.admin.borrow_mut() = Some(Admin { address, socket, task });
    }

    /// Opens the sockets for associations, or takes them over if they have this address, and calls `open` with them.
    ///
    /// # Errors
    /// If they can't be opened, or `open` fails.
    pub(crate) fn open_group<T>(
        &self,
        address: SocketAddr,
        open: impl FnOnce(&mut UdpGroup) -> Result<T>,
    ) -> Result<T> {
        let options = UdpOptions::default();
        let members =
            self.inherited.borrow_mut().as_mut().map(|inherited| std::mem::take(&mut inherited.group));
        let is_at = |group: &UdpGroup| address.port() == 0 || group.local_addr() == address;
        let adopted = members.and_then(|members| UdpGroup::adopt(members, &options));
        let before =
            adopted.as_ref().map(UdpGroup::local_addr).filter(|before| before.port() == address.port());
        let mut group = match adopted.filter(is_at) {
            Some(group) => group,
            None => UdpGroup::bind(address, &options).with_context(|| match before {
                // Its packets must find it there.
                Some(before) => format!(
                    "listening on UDP {address}: the old process keeps {before} as long as it has connections, so that listen \
                     can only be changed to another port, or by a stop and a start"
                ),
                None => format!("listening on UDP {address}"),
            })?,
        };
        let opened = open(&mut group)?;
        *self.group.borrow_mut() = Some(group);
        Ok(opened)
    }

    /// Takes over what is new, and tells the predecessor that it need not.
    ///
    /// # Errors
    /// If the kernel refuses to steer packets here, or the predecessor has ended.
    pub(crate) fn lead(&self, gateway: &Arc<Gateway>) -> Result<()> {
        if let Some(group) = &*self.group.borrow() {
            group.lead()?;
        }
        // Before the predecessor may end: a container, or a unit of systemd, ends with the process known as
        // its main one.
        init::notify();
        handover::notify_systemd();
        let Some(inherited) = self.inherited.borrow_mut().take() else {
            gateway.questions.begin();
            return Ok(());
        };
        if let Some((_, stream)) = inherited.predecessors.last() {
            handover::send_ready(stream)?;
        }
        for (predecessor, stream) in inherited.predecessors {
            self.follow(predecessor, stream, gateway)?;
        }
        gateway.questions.begin();
        // What is trusted may be less than when they read it.
        self.send_new_keys();
        Ok(())
    }

    /// Follows a predecessor until it ends: then its sockets are free.
    fn follow(
        &self,
        predecessor: Predecessor,
        stream: std::os::unix::net::UnixStream,
        gateway: &Arc<Gateway>,
    ) -> Result<()> {
        let (group, hands_over) = (Rc::clone(&self.group), Rc::clone(&self.hands_over));
        let on_end = move || {
            let mut group = group.borrow_mut();
            let (Some(group), Some(generation)) = (group.as_mut(), predecessor.generation) else { return };
            group.release(generation);
            if hands_over.get() {
                // The successor may lead already, and learns of this end as well. If it fails, this one leads again.
                return;
            }
            if let Err(error) = group.lead() {
                tracing::error!(%error, "steering the packets of a process that has ended failed");
            }
        };
        let process = PredecessorProcess::follow(predecessor, stream, gateway, on_end)?;
        self.predecessors.borrow_mut().push(process);
        Ok(())
    }

    /// Starts the successor, and hands over the sockets of the listeners and those kept here. It is told how long the
    /// connections here may last once this process is told to end. Returns its process ID.
    ///
    /// # Errors
    /// If it does not start: nothing has changed then.
    pub(crate) async fn hand_over(
        &self,
        listeners: Vec<ListenerId>,
        mut all: Vec<OwnedFd>,
        drain_timeout: Duration,
    ) -> Result<u32> {
        if self.hands_over.replace(true) {
            bail!("a restart is going on already");
        }
        let handed = async {
            let listing = self.list(listeners, &mut all, drain_timeout)?;
            let descriptors: Vec<BorrowedFd<'_>> = all.iter().map(AsFd::as_fd).collect();
            self.program.succeed(&listing, &descriptors, self.cancelled.notified()).await
        };
        let handed = match handed.await {
            Ok(successor) => {
                let pid = successor.pid;
                *self.successor.borrow_mut() = Some(Rc::new(successor));
                self.succeeded.notify_one();
                Ok(pid)
            }
            Err(error) => {
                self.hands_over.set(false);
                // It may have begun to lead.
                if let Some(Err(error)) = self.group.borrow().as_ref().map(UdpGroup::lead) {
                    tracing::error!(%error, "steering packets here again failed");
                }
                Err(error)
            }
        };
        self.settled.notify_waiters();
        handed
    }

    /// Ends the successor, since this one is told to end, unless none is starting. Returns it if it serves
    /// already: it was told to end, too.
    pub(crate) async fn end_next(&self) -> Option<Rc<Successor>> {
        let served = self.successor.borrow().clone();
        if let Some(successor) = &served {
            successor.terminate();
            return served;
        }
        let settled = self.settled.notified();
        if !self.hands_over.get() {
            return None;
        }
        self.cancelled.notify_one();
        settled.await;
        // One that was quicker was told while it started.
        self.successor.borrow().clone()
    }

    /// Returns whether there are as many processes as the sockets for associations have room for.
    pub(crate) fn is_full(&self) -> bool {
        let predecessors = self.predecessors.borrow();
        let open = predecessors.iter().filter(|process| !*process.is_over.borrow()).count();
        self.group.borrow().is_some() && open >= PREDECESSORS_MAX
    }

    /// Tells the oldest predecessor to end, and waits until it has: its connections are reset unless they end in
    /// its own `drain_timeout`, or in this one if it did not say.
    ///
    /// # Errors
    /// If it does not end in time.
    pub(crate) async fn end_oldest(&self, drain_timeout: Duration) -> Result<()> {
        let oldest = {
            let predecessors = self.predecessors.borrow();
            let oldest = predecessors.iter().find(|process| !*process.is_over.borrow());
            oldest.map(|process| (process.predecessor, Arc::clone(&process.stream), process.is_over.clone()))
        };
        let Some((Predecessor { pid, drain_timeout_secs, .. }, stream, mut is_over)) = oldest else {
            return Ok(());
        };
        let limit = drain_timeout_secs.map_or(drain_timeout, Duration::from_secs) + LAST_STEPS;
        tracing::info!(pid, "the oldest process is told to end");
        handover::send_end(&stream);
        drop(stream);
        match timeout(limit, is_over.wait_for(|is_over| *is_over)).await {
            // The sender is dropped behind the end.
            Ok(_) => Ok(()),
            Err(_) => bail!("the oldest process, {pid}, does not end"),
        }
    }

    /// Lists what is handed over, and appends the descriptors in that order.
    fn list(
        &self,
        listeners: Vec<ListenerId>,
        all: &mut Vec<OwnedFd>,
        drain_timeout: Duration,
    ) -> Result<SocketManifest> {
        let mut listing = SocketManifest { listeners, ..SocketManifest::default() };
        if let Some(admin) = &*self.admin.borrow() {
            listing.admin = Some(admin.address);
            all.push(admin.socket.try_clone()?);
        }
        let group = self.group.borrow();
        if let Some(group) = &*group {
            listing.group = group.owners().collect();
            for descriptor in group.descriptors() {
                all.push(descriptor.try_clone_to_owned()?);
            }
        }
        for process in self.predecessors.borrow().iter().filter(|process| !*process.is_over.borrow()) {
            listing.predecessors.push(process.predecessor);
            all.push(process.stream.try_clone()?.into());
        }
        let generation = group.as_ref().and_then(UdpGroup::generation);
        let drain_timeout_secs = Some(drain_timeout.as_secs());
        listing.predecessors.push(Predecessor { pid: std::process::id(), generation, drain_timeout_secs });
        Ok(listing)
    }

    /// Waits until the successor has taken over.
    pub(crate) async fn succeeded(&self) -> Rc<Successor> {
        loop {
            if let Some(successor) = &*self.successor.borrow() {
                return Rc::clone(successor);
            }
            self.succeeded.notified().await;
        }
    }

    /// Closes the sockets that are kept for the successor. If there is none, the predecessors are told to end, too.
    pub(crate) fn stop(&self) {
        let admin = self.admin.borrow_mut().take();
        if self.successor.borrow().is_none() {
            self.predecessors.borrow().iter().for_each(|process| handover::send_end(&process.stream));
            return;
        }
        if let Some(admin) = admin {
            admin.task.abort();
        }
        // The next one follows them.
        self.predecessors.take().into_iter().for_each(PredecessorProcess::leave);
    }

    /// Lets the predecessors read keys and trust again.
    pub(crate) fn send_new_keys(&self) {
        self.predecessors.borrow().iter().for_each(|process| handover::send_new_keys(&process.stream));
    }

    /// Waits until the predecessors have ended.
    pub(crate) async fn formers_ended(&self) {
        let all: Vec<_> = self.predecessors.borrow().iter().map(|process| process.is_over.clone()).collect();
        for mut is_over in all {
            // The sender is dropped behind the end.
            let _ = is_over.wait_for(|is_over| *is_over).await;
        }
    }

    /// Returns sockets of the predecessor that this one does not take: listeners that are not wanted, and the
    /// listener for status and metrics unless it has this address.
    ///
    /// # Errors
    /// If there are too many descriptors.
    pub(crate) fn leaving(
        &self,
        is_wanted: impl Fn(ListenerId) -> bool,
        admin: Option<SocketAddr>,
    ) -> std::io::Result<Vec<OwnedFd>> {
        match &*self.inherited.borrow() {
            Some(inherited) => inherited.leaving(is_wanted, admin),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the predecessors that still have connections, for the status.
    pub(crate) fn status(&self) -> Value {
        let predecessors = self.predecessors.borrow();
        let open = predecessors.iter().filter(|process| !*process.is_over.borrow());
        let one = |process: &PredecessorProcess| json!({"pid": process.predecessor.pid, "connections": process.connections.get()});
        open.map(one).collect::<Vec<_>>().into()
    }
}

impl PredecessorProcess {
    /// Follows a predecessor until it ends, and calls `on_end` then.
    fn follow(
        predecessor: Predecessor,
        stream: std::os::unix::net::UnixStream,
        gateway: &Arc<Gateway>,
        on_end: impl FnOnce() + 'static,
    ) -> Result<Self> {
        stream.set_nonblocking(true)?;
        let stream = Arc::new(stream);
        gateway.questions.add(predecessor.pid, Arc::clone(&stream));
        let asked = Arc::clone(gateway);
        let mut told = UnixStream::from_std(stream.try_clone()?)?;
        let (connections, (over, is_over)) = (Rc::new(Cell::new(0)), watch::channel(false));
        let count = Rc::clone(&connections);
        let following = async move {
            while let Some(open) = handover::receive_count(&mut told).await {
                count.set(open);
            }
            asked.questions.remove(predecessor.pid);
            tracing::info!(pid = predecessor.pid, "the process of before has ended");
            on_end();
            over.send_replace(true);
        };
        let task = tokio::task::spawn_local(following).abort_handle();
        Ok(Self { predecessor, stream, connections, is_over, task, gateway: Arc::clone(gateway) })
    }

    /// Leaves it to the successor. Programs may have just asked here what became of their connections, so that it
    /// is still asked for a while.
    fn leave(self) {
        self.task.abort();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(QUESTIONS_LAST).await;
            drop(self);
        });
    }
}

#[cfg(test)]
mod tests;
