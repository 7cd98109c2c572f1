//! The processes of a gateway that restarts hot: those of before, and the next one.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use strandline::{UdpGroup, UdpOptions};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::handover::{self, Former, Inherited, Listing, Program, Successor, WayId};

/// What a process got from the one before it, and what it hands over.
pub(crate) struct Succession {
    program: Program,
    inherited: RefCell<Option<Inherited>>,
    /// The sockets for associations.
    group: Rc<RefCell<Option<UdpGroup>>>,
    formers: RefCell<Vec<FormerProcess>>,
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
struct FormerProcess {
    former: Former,
    stream: std::os::unix::net::UnixStream,
    connections: Rc<Cell<u32>>,
    is_over: Rc<Cell<bool>>,
    task: AbortHandle,
}

impl Succession {
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
    pub(crate) fn take_way(&self, id: WayId) -> Option<OwnedFd> {
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
            None => strandline_ops::http::bind_for("admin", address).await,
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
        let adopted = members.and_then(|members| UdpGroup::adopt(members, &options)).filter(is_at);
        let mut group = match adopted {
            Some(group) => group,
            None => {
                UdpGroup::bind(address, &options).with_context(|| format!("listening on UDP {address}"))?
            }
        };
        let opened = open(&mut group)?;
        *self.group.borrow_mut() = Some(group);
        Ok(opened)
    }

    /// Takes over what is new, and tells the process before that it need not.
    ///
    /// # Errors
    /// If the kernel refuses to steer packets here, or the process before has ended.
    pub(crate) fn lead(&self) -> Result<()> {
        if let Some(group) = &*self.group.borrow() {
            group.lead()?;
        }
        let Some(inherited) = self.inherited.borrow_mut().take() else { return Ok(()) };
        if let Some((_, stream)) = inherited.formers.last() {
            handover::tell_ready(stream)?;
        }
        for (former, stream) in inherited.formers {
            let process = FormerProcess::follow(former, stream, Rc::clone(&self.group))?;
            self.formers.borrow_mut().push(process);
        }
        Ok(())
    }

    /// Starts the next process, and hands over the sockets of the ways in and those kept here. Returns its process ID.
    ///
    /// # Errors
    /// If it does not start: nothing has changed then.
    pub(crate) async fn hand_over(&self, ways: Vec<WayId>, mut all: Vec<OwnedFd>) -> Result<u32> {
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
    fn list(&self, ways: Vec<WayId>, all: &mut Vec<OwnedFd>) -> Result<Listing> {
        let mut listing = Listing { ways, ..Listing::default() };
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
        for process in self.formers.borrow().iter().filter(|process| !process.is_over.get()) {
            listing.formers.push(process.former);
            all.push(process.stream.try_clone()?.into());
        }
        let generation = group.as_ref().and_then(UdpGroup::generation);
        listing.formers.push(Former { pid: std::process::id(), generation });
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

    /// Closes the sockets that are kept for the next process.
    pub(crate) fn stop(&self) {
        if let Some(admin) = self.admin.borrow_mut().take()
            && self.successor.borrow().is_some()
        {
            admin.task.abort();
        }
        self.formers.borrow_mut().iter().for_each(|process| process.task.abort());
    }

    /// Returns the processes of before that still have connections, for the status.
    pub(crate) fn status(&self) -> Value {
        let formers = self.formers.borrow();
        let open = formers.iter().filter(|process| !process.is_over.get());
        let one = |process: &FormerProcess| json!({"pid": process.former.pid, "connections": process.connections.get()});
        open.map(one).collect::<Vec<_>>().into()
    }
}

impl FormerProcess {
    /// Follows a process of before until it ends: then its sockets are free.
    fn follow(
        former: Former,
        stream: std::os::unix::net::UnixStream,
        group: Rc<RefCell<Option<UdpGroup>>>,
    ) -> Result<Self> {
        stream.set_nonblocking(true)?;
        let mut told = UnixStream::from_std(stream.try_clone()?)?;
        let (connections, is_over) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
        let (count, over) = (Rc::clone(&connections), Rc::clone(&is_over));
        let following = async move {
            while let Some(open) = handover::told_by(&mut told).await {
                count.set(open);
            }
            over.set(true);
            tracing::info!(pid = former.pid, "the process of before has ended");
            if let (Some(group), Some(generation)) = (&mut *group.borrow_mut(), former.generation) {
                group.release(generation);
                if let Err(error) = group.lead() {
                    tracing::error!(%error, "steering the packets of a process that has ended failed");
                }
            }
        };
        let task = tokio::task::spawn_local(following).abort_handle();
        Ok(Self { former, stream, connections, is_over, task })
    }
}
