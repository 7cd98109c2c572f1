//! One of several processes that serve the same addresses.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result};
use strandline_ops::Files;
use strandline_ops::http::{Answer, Reply, Request};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, channel, unbounded_channel};

use crate::server::admin::Admin;
use crate::server::args::Args;
use crate::server::config::{Config, Listen, Store};
use crate::server::hub::Hub;
use crate::server::input;
use crate::server::pages;
use crate::server::reload::Reloader;
use crate::server::seeds::NonceKey;
use crate::server::socket::Mail;
use crate::server::status;
use crate::server::storage::{NEWS, Stored};
use crate::service::{Seeds, Service};
use crate::store::{ALONE, Damage, News, StoreError, worker_name};
use crate::transaction::Protocol;

use super::admin_requests::SECOND;
use super::descriptors::Inherited;
use super::frame::ToSupervisor;
use super::link::{Link, Order, SupervisorSender};

/// The first of the SCTP ports from which workers other than the first set up associations; the worker's
/// number is added.
const OWN_PORTS: u16 = 49_152;

/// This process, as one of several.
pub(in crate::server) struct Worker {
    own: u8,
    count: u8,
    /// The name of the server, as other nodes know it.
    server: String,
    /// The link, until it is read by its own thread.
    link: Option<Link>,
    to_supervisor: SupervisorSender,
    orders: Option<UnboundedReceiver<Order>>,
    /// The socket from which it reads letters, and those to which it writes.
    mail: Option<(OwnedFd, Vec<OwnedFd>)>,
    sockets: Inherited,
    /// The reloaded configuration, until it is applied.
    last: Option<Files>,
    draining: bool,
    sctp: Option<(u16, u16)>,
    begun_unix_secs: u64,
    /// Notified when the worker may end.
    ends: Rc<Notify>,
}

impl Worker {
    /// Connects to the supervisor. Returns the accepted configuration, adapted for one of several workers.
    pub(in crate::server) fn join(own: u8, args: &Args) -> Result<(Self, Config)> {
        let mut link = Link::open(own)?;
        let mut config =
            Config::of(args, &mut link.started).context("applying the supervisor's configuration")?;
        let (count, sctp, draining) = (link.hello.count, link.hello.sctp, link.hello.draining);
        let begun_unix_secs = link.hello.begun_unix_secs;
        let mut descriptors: VecDeque<OwnedFd> = std::mem::take(&mut link.descriptors).into();
        let mail = descriptors
            .pop_front()
            .context("the supervisor passed no socket for messages of other workers")?;
        let to = descriptors.drain(..usize::from(count).min(descriptors.len())).collect();
        let sockets = Inherited::new(std::mem::take(&mut link.hello.sockets), descriptors.into())?;
        let server = match &config.store {
            Some(Store::Shared(settings)) => settings.node.name.clone(),
            _ => ALONE.to_owned(),
        };
        config.share(own, count);
        let worker = Self {
            own,
            count,
            server,
            to_supervisor: link.to_supervisor(),
            last: link.last.take(),
            link: Some(link),
            orders: None,
            mail: Some((mail, to)),
            sockets,
            draining,
            sctp,
            begun_unix_secs,
            ends: Rc::new(Notify::new()),
        };
        Ok((worker, config))
    }

    /// The number of workers.
    pub(in crate::server) const fn count(&self) -> u8 {
        self.count
    }

    /// Sets the keys on which all workers must agree.
    pub(in crate::server) fn agree(&self, seeds: &mut Seeds, nonces: &mut NonceKey) {
        let Some(hello) = self.link.as_ref().map(|link| &link.hello) else { return };
        seeds.agree_on(hello.hashes);
        if hello.relays {
            (seeds.tokens, nonces.key) = (hello.tokens, hello.nonces);
        }
    }

    /// Returns true if the supervisor stores the bindings.
    pub(in crate::server) fn relays(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.hello.relays)
    }

    /// Loads the supervisor's state into the service, and starts the threads. With a store of its own, the
    /// worker has loaded that already.
    pub(in crate::server) fn follow(&mut self, service: &mut Service) -> Result<Option<Stored>> {
        let mut link = self.link.take().context("the worker follows the supervisor already")?;
        let alive = link.hello.alive;
        let (orders, from) = unbounded_channel();
        self.orders = Some(from);
        let stored = if link.hello.relays {
            service.join(&worker_name(ALONE, self.own), None);
            let mut damage = Damage::default();
            link.load(&mut |node, aor, state| {
                damage.on_user(node, aor, service.load(node, aor, state));
            })?;
            let (sender, news) = channel(NEWS);
            let stored = Stored::relayed(Box::new(link.store()), news, &damage)?;
            let report = move |news| {
                // The receiver may have ended.
                let _ = sender.blocking_send(news);
            };
            link.follow(report, orders).context("starting the thread that reads from the supervisor")?;
            Some(stored)
        } else {
            link.load(&mut |_, _, _| {})?;
            link.follow(|_: News| {}, orders)
                .context("starting the thread that reads from the supervisor")?;
            None
        };
        let names: Vec<String> = (0..self.count).map(|worker| worker_name(&self.server, worker)).collect();
        service.set_workers(self.own, &names);
        service.setup_mut().set_workers_alive(alive);
        Ok(stored)
    }

    /// The listening socket for an address other than SCTP.
    pub(in crate::server) fn socket(&mut self, listen: &Listen) -> Result<OwnedFd> {
        self.sockets.take(listen)
    }

    /// The first worker listens for SCTP. The others use it only to set up associations, and advertise the
    /// first one's port.
    pub(in crate::server) fn sctp(&self, listen: &Listen) -> (Listen, Option<u16>) {
        let carrier = match self.own {
            0 => self.sctp.map_or(listen.address.port(), |(_, carrier)| carrier),
            _ => 0,
        };
        let mut address = listen.address;
        address.set_port(carrier);
        let port = self.sctp.filter(|_| self.own != 0).map(|(port, _)| port);
        // For a peer, an association is identified by addresses and SCTP ports, so those of different workers
        // must differ.
        let sctp_port = match (self.own, self.sctp) {
            (0, Some((port, _))) => port,
            (0, None) => listen.sctp_port,
            (own, _) => OWN_PORTS + u16::from(own),
        };
        (Listen { address, sctp_port, ..listen.clone() }, port)
    }

    /// Starts exchanging letters with the other workers.
    pub(in crate::server) fn open_mail(&mut self, hub: &Rc<Hub>) -> Result<()> {
        hub.transports.connections.number_for(self.own, self.begun_unix_secs);
        let (from, to) = self.mail.take().context("the sockets between workers are open already")?;
        let mail = Mail::new(self.own, from, to).context("opening the sockets between workers")?;
        hub.transports.mail.replace(Some(Rc::clone(&mail)));
        tokio::task::spawn_local(input::mail::serve(mail, Rc::clone(hub)));
        Ok(())
    }

    /// Applies the changes since the start of the server, before a replacement worker serves.
    pub(in crate::server) fn catch_up(&mut self, hub: &Rc<Hub>, reloader: &Reloader) -> Result<()> {
        hub.service.borrow_mut().setup_mut().set_draining(self.draining);
        if let Some(mut files) = self.last.take() {
            reloader.reload_from(hub, &mut files).context("applying the supervisor's configuration")?;
        }
        Ok(())
    }

    /// Reports to the supervisor that the worker serves, and follows its requests.
    pub(in crate::server) fn serve(
        &mut self,
        users: usize,
        sctp: Option<(u16, u16)>,
        admin: Admin,
    ) -> Result<()> {
        self.to_supervisor
            .send(&ToSupervisor::Ready { users, sctp }, &[])
            .context("reporting to the supervisor")?;
        let orders = self.orders.take().context("the worker follows the supervisor already")?;
        tokio::task::spawn_local(obey(
            orders,
            Arc::new(self.to_supervisor.clone()),
            Rc::clone(&self.ends),
            admin,
        ));
        Ok(())
    }

    /// Reports that all transactions here have ended, and waits until that is so at all workers, whose phones
    /// may be connected here.
    pub(in crate::server) async fn end(&self, hub: &Hub) {
        if self.to_supervisor.send(&ToSupervisor::Drained, &[]).is_ok() {
            tokio::select! {
                () = self.ends.notified() => {}
                () = hub.store.is_lost.notified() => {}
            }
        }
    }
}

async fn obey(
    mut orders: UnboundedReceiver<Order>,
    to_supervisor: Arc<SupervisorSender>,
    ends: Rc<Notify>,
    admin: Admin,
) {
    while let Some(order) = orders.recv().await {
        match order {
            Order::Alive(workers) => admin.hub.service.borrow_mut().setup_mut().set_workers_alive(workers),
            Order::Request { id, method, target } => {
                let to_supervisor = Arc::clone(&to_supervisor);
                let respond = move |answer: Answer| {
                    let head = ToSupervisor::Answer { id, status: answer.status() };
                    // If the supervisor has ended, nobody needs the response.
                    let _ = to_supervisor.send(&head, answer.body().as_bytes());
                };
                match answer(&admin, &method, &target) {
                    Reply::Now(answer) => respond(answer),
                    Reply::Later(later) => {
                        tokio::task::spawn_local(async move { respond(later.await) });
                    }
                }
            }
            Order::Reload { id, mut files } => {
                let result = admin.reloader.reload_from(&admin.hub, &mut files);
                let error = result.err().map(|error| error.to_string());
                // If the supervisor has ended, nobody needs the result.
                let _ = to_supervisor.send(&ToSupervisor::Reloaded { id, error }, &[]);
            }
            Order::End => ends.notify_one(),
            Order::Lost => {
                let error = StoreError::new("serving", "the connection to the supervisor is closed");
                admin.hub.store.lose(StoreError { is_final: true, ..error });
            }
        }
    }
}

/// Answers a request that the supervisor has authorised.
fn answer(admin: &Admin, method: &str, target: &str) -> Reply {
    match Request::for_target(method, target) {
        Ok(request) => match request.parts().first() {
            Some(&SECOND) => Answer::json(200, &status::second(&admin.hub)).into(),
            Some(&("live.json" | "metrics")) => pages::answer(&admin.hub, &request).into(),
            _ => admin.serve(&request),
        },
        Err(what) => Answer::error(400, what, "").into(),
    }
}

/// Returns true if SCTP is configured.
pub(super) fn has_sctp(config: &Config) -> bool {
    config.listen.iter().any(|listen| listen.protocol == Protocol::Sctp)
}
