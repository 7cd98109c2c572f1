//! The processes of a gateway that restarts hot: those of before, and the next one.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use strandline::{UdpGroup, UdpOptions};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use crate::gateway::Gateway;
use crate::handover::{self, Inherited, ListenerId, Predecessor, Program, SocketManifest, Successor};
use crate::{init, listeners};

/// What a process got from the one before it, and what it hands over.
pub(crate) struct HotRestart {
    program: Program,
    inherited: RefCell<Option<Inherited>>,
    /// The sockets for associations.
    group: Rc<RefCell<Option<UdpGroup>>>,
    formers: RefCell<Vec<PredecessorProcess>>,
    admin: RefCell<Option<Admin>>,
    successor: RefCell<Option<Rc<Successor>>>,
    is_busy: Cell<bool>,
    succeeded: Notify,
}

/// The listener for status and metrics.
struct Admin {
    /// As configured.
    address: SocketAddr,
    socket: OwnedFd,
    task: AbortHandle,
}

/// A process of before.
struct PredecessorProcess {
    former: Predecessor,
    stream: Arc<std::os::unix::net::UnixStream>,
    connections: Rc<Cell<u32>>,
    is_over: watch::Receiver<bool>,
    task: AbortHandle,
    gateway: Arc<Gateway>,
}

impl Drop for PredecessorProcess {
    fn drop(&mut self) {
        self.task.abort();
        // The stream must not stay open here: its end tells the process of before that it is alone.
        self.gateway.questions.remove(self.former.pid);
    }
}

impl HotRestart {
    pub(crate) fn new(program: Program, inherited: Option<Inherited>) -> Self {
        Self {
            program,
            inherited: RefCell::new(inherited),
            group: Rc::default(),
            formers: RefCell::default(),
            admin: RefCell::default(),
            successor: RefCell::default(),
            is_busy: Cell::new(false),
            succeeded: Notify::new(),
        }
    }

    /// Takes the socket of a way in that the process before had.
    pub(crate) fn take_way(&self, id: ListenerId) -> Option<OwnedFd> {
        self.inherited.borrow_mut().as_mut()?.take_way(id)
    }

    /// Returns the listener for status and metrics: that of the process before, or a new one.
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
                    Err(_) => strandline_ops::http::bind_for("admin", address).await,
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

    /// Takes over what is new, and tells the process before that it need not.
    ///
    /// # Errors
    /// If the kernel refuses to steer packets here, or the process before has ended.
    pub(crate) fn lead(&self, gateway: &Arc<Gateway>) -> Result<()> {
        if let Some(group) = &*self.group.borrow() {
            group.lead()?;
        }
        // Before the process of before may end: a container, or a unit of systemd, ends with the process known as its main one.
        init::tell();
        handover::notify_systemd();
        let Some(inherited) = self.inherited.borrow_mut().take() else { return Ok(()) };
        if let Some((_, stream)) = inherited.formers.last() {
            handover::tell_ready(stream)?;
        }
        for (former, stream) in inherited.formers {
            let process = PredecessorProcess::follow(former, stream, Rc::clone(&self.group), gateway)?;
            self.formers.borrow_mut().push(process);
        }
        Ok(())
    }

    /// Starts the next process, and hands over the sockets of the ways in and those kept here. Returns its process ID.
    ///
    /// # Errors
    /// If it does not start: nothing has changed then.
    pub(crate) async fn hand_over(&self, ways: Vec<ListenerId>, mut all: Vec<OwnedFd>) -> Result<u32> {
        if self.is_busy.replace(true) {
            bail!("a restart is going on already");
        }
        let handed = async {
            let listing = self.list(ways, &mut all)?;
            let descriptors: Vec<BorrowedFd<'_>> = all.iter().map(AsFd::as_fd).collect();
            self.program.succeed(&listing, &descriptors).await
        };
        match handed.await {
            Ok(successor) => {
                let pid = successor.pid;
                *self.successor.borrow_mut() = Some(Rc::new(successor));
                self.succeeded.notify_one();
                Ok(pid)
            }
            Err(error) => {
                self.is_busy.set(false);
                // It may have begun to lead.
                if let Some(group) = &*self.group.borrow() {
                    group.lead()?;
                }
                Err(error)
            }
        }
    }

    /// Lists what is handed over, and appends the descriptors in that order.
    fn list(&self, ways: Vec<ListenerId>, all: &mut Vec<OwnedFd>) -> Result<SocketManifest> {
        let mut listing = SocketManifest { ways, ..SocketManifest::default() };
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
        for process in self.formers.borrow().iter().filter(|process| !*process.is_over.borrow()) {
            listing.formers.push(process.former);
            all.push(process.stream.try_clone()?.into());
        }
        let generation = group.as_ref().and_then(UdpGroup::generation);
        listing.formers.push(Predecessor { pid: std::process::id(), generation });
        Ok(listing)
    }

    /// Waits until the next process has taken over.
    pub(crate) async fn succeeded(&self) -> Rc<Successor> {
        loop {
            if let Some(successor) = &*self.successor.borrow() {
                return Rc::clone(successor);
            }
            self.succeeded.notified().await;
        }
    }

    /// Closes the sockets that are kept for the next process. If there is none, the processes of before are told to end, too.
    pub(crate) fn stop(&self) {
        let admin = self.admin.borrow_mut().take();
        if self.successor.borrow().is_none() {
            self.formers.borrow().iter().for_each(|process| handover::tell_to_end(&process.stream));
            return;
        }
        if let Some(admin) = admin {
            admin.task.abort();
        }
        // The next one follows them.
        self.formers.borrow_mut().clear();
    }

    /// Waits until the processes of before have ended.
    pub(crate) async fn formers_ended(&self) {
        let all: Vec<_> = self.formers.borrow().iter().map(|process| process.is_over.clone()).collect();
        for mut is_over in all {
            // The sender is dropped behind the end.
            let _ = is_over.wait_for(|is_over| *is_over).await;
        }
    }

    /// Returns sockets of the process before that this one does not take: ways that are not wanted, and the listener for status
    /// and metrics unless it has this address.
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

    /// Returns the processes of before that still have connections, for the status.
    pub(crate) fn status(&self) -> Value {
        let formers = self.formers.borrow();
        let open = formers.iter().filter(|process| !*process.is_over.borrow());
        let one = |process: &PredecessorProcess| json!({"pid": process.former.pid, "connections": process.connections.get()});
        open.map(one).collect::<Vec<_>>().into()
    }
}

impl PredecessorProcess {
    /// Follows a process of before until it ends: then its sockets are free.
    fn follow(
        former: Predecessor,
        stream: std::os::unix::net::UnixStream,
        group: Rc<RefCell<Option<UdpGroup>>>,
        gateway: &Arc<Gateway>,
    ) -> Result<Self> {
        stream.set_nonblocking(true)?;
        let stream = Arc::new(stream);
        gateway.questions.add(former.pid, Arc::clone(&stream));
        let asked = Arc::clone(gateway);
        let mut told = UnixStream::from_std(stream.try_clone()?)?;
        let (connections, (over, is_over)) = (Rc::new(Cell::new(0)), watch::channel(false));
        let count = Rc::clone(&connections);
        let following = async move {
            while let Some(open) = handover::told_by(&mut told).await {
                count.set(open);
            }
            over.send_replace(true);
            asked.questions.remove(former.pid);
            tracing::info!(pid = former.pid, "the process of before has ended");
            if let (Some(group), Some(generation)) = (&mut *group.borrow_mut(), former.generation) {
                group.release(generation);
                if let Err(error) = group.lead() {
                    tracing::error!(%error, "steering the packets of a process that has ended failed");
                }
            }
        };
        let task = tokio::task::spawn_local(following).abort_handle();
        Ok(Self { former, stream, connections, is_over, task, gateway: Arc::clone(gateway) })
    }
}
