//! Administrative requests: forwarded to the workers, and answered for all of them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use strandline_ops::Reload;
use strandline_ops::http::{Answer, Handler, Reply, Request, listen_for};
use strandline_ops::metrics::CONTENT_TYPE;
use tokio::sync::oneshot;

use crate::server::clock::{self, Clock};
use crate::server::config::{Config, Store};
use crate::server::live::{Ended, Live, Seconds, TakenSecond};
use crate::server::metrics;
use crate::server::pages::PAGE;

use super::accepted::Accepted;
use super::exchange::Exchange;
use super::frame::ToWorker;
use super::merged::{self, Own};

/// The request for the figures of the last second.
pub(super) const SECOND: &str = "second";
/// How long to wait for a worker, which may be busy.
const TIMEOUT: Duration = Duration::from_millis(1500);
/// As [`TIMEOUT`], for changes such as a configuration with a large file of users.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(15);

/// Forwards requests to the workers.
pub(super) struct AdminRequests {
    exchange: Arc<Exchange>,
    count: u8,
    next: Cell<u64>,
    pending: RefCell<HashMap<u64, oneshot::Sender<(u16, String)>>>,
    /// The history of all workers, second by second.
    seconds: RefCell<Seconds>,
    ended: RefCell<Ended>,
    begun: Instant,
    begun_unix_secs: u64,
    /// True if the supervisor does the commits.
    commits: bool,
    token: Option<String>,
    store_timeout: Duration,
    /// Number of worker restarts.
    restarts: Cell<u64>,
    accepted: Rc<Accepted>,
    /// True while the server is draining.
    pub(super) draining: Cell<bool>,
}

/// A pending request to a worker. Dropping it forgets the request.
struct PendingAnswer<'a> {
    requests: &'a AdminRequests,
    worker: u8,
    id: u64,
    /// `None` if the worker has ended.
    answer: Option<oneshot::Receiver<(u16, String)>>,
}

impl PendingAnswer<'_> {
    /// The worker's response; `None` if the worker has ended or takes too long.
    async fn answer(mut self, timeout: Duration) -> Option<WorkerAnswer> {
        let answer = tokio::time::timeout(timeout, self.answer.take()?).await.ok()?.ok()?;
        Some((self.worker, answer.0, answer.1))
    }
}

impl Drop for PendingAnswer<'_> {
    fn drop(&mut self) {
        self.requests.pending.borrow_mut().remove(&self.id);
    }
}

/// The number of a worker, and its status and body.
type WorkerAnswer = (u8, u16, String);

impl AdminRequests {
    pub(super) fn new(exchange: Arc<Exchange>, config: &Config, accepted: Rc<Accepted>) -> Rc<Self> {
        Rc::new(Self {
            exchange,
            count: config.processes,
            next: Cell::new(0),
            pending: RefCell::default(),
            seconds: RefCell::default(),
            ended: RefCell::default(),
            begun: clock::now(),
            begun_unix_secs: Clock::unix().as_secs(),
            commits: matches!(config.store, Some(Store::Sqlite(_))),
            token: config.admin.as_ref().map(|admin| admin.token.clone()),
            store_timeout: config.store_timeout,
            restarts: Cell::default(),
            accepted,
            draining: Cell::default(),
        })
    }

    /// Handles the response of a worker.
    pub(super) fn answered(&self, id: u64, status: u16, body: Vec<u8>) {
        if let Some(waiting) = self.pending.borrow_mut().remove(&id) {
            // The requester may have gone.
            let _ = waiting.send((status, String::from_utf8_lossy(&body).into_owned()));
        }
    }

    /// Sends a message that the worker answers.
    fn send(&self, worker: u8, head: impl FnOnce(u64) -> ToWorker, body: &[u8]) -> PendingAnswer<'_> {
        let id = self.next.get() + 1;
        self.next.set(id);
        let (sender, answer) = oneshot::channel();
        self.pending.borrow_mut().insert(id, sender);
        let sent = self.exchange.send(worker, &head(id), body);
        PendingAnswer { requests: self, worker, id, answer: sent.then_some(answer) }
    }

    fn request(&self, worker: u8, method: &str, target: &str) -> PendingAnswer<'_> {
        let (method, target) = (method.to_owned(), target.to_owned());
        self.send(worker, |id| ToWorker::Request { id, method, target }, &[])
    }

    /// The responses that arrive in time.
    async fn answers(pending: Vec<PendingAnswer<'_>>, timeout: Duration) -> Vec<WorkerAnswer> {
        let answers = pending.into_iter().map(|pending| pending.answer(timeout));
        futures_util::future::join_all(answers).await.into_iter().flatten().collect()
    }

    /// Sends a request to all serving workers at once.
    async fn request_all(&self, method: &str, target: &str) -> Vec<WorkerAnswer> {
        let serving = self.exchange.serving().into_iter();
        Self::answers(serving.map(|worker| self.request(worker, method, target)).collect(), TIMEOUT).await
    }

    /// Sends a command to all workers. Those that don't serve yet will carry it out first; only the others
    /// are waited for.
    async fn command_all<'a>(&'a self, send: impl Fn(u8) -> PendingAnswer<'a>) -> Vec<WorkerAnswer> {
        let serving = self.exchange.serving();
        let linked = self.exchange.linked().into_iter();
        let mut pending: Vec<PendingAnswer<'_>> = linked.map(send).collect();
        pending.retain(|pending| serving.contains(&pending.worker));
        Self::answers(pending, CHANGE_TIMEOUT).await
    }

    /// Sends a request to one serving worker, or to another one if that doesn't respond. A request for a
    /// change is sent only once.
    async fn request_any(&self, method: &str, target: &str, timeout: Duration) -> Answer {
        let changes = method != "GET";
        for worker in self.exchange.serving() {
            match self.request(worker, method, target).answer(timeout).await {
                Some((_, status, body)) => return Answer::text(status, "application/json", body),
                None if changes => {
                    return Answer::error(
                        503,
                        "a worker process did not respond in time",
                        "the request may have been carried out, or still may be: check before you repeat it",
                    );
                }
                None => {}
            }
        }
        unavailable()
    }

    async fn live(&self) -> Value {
        let answers = self.request_all("GET", "/live.json").await;
        let workers: Vec<(u8, Live)> = answers
            .into_iter()
            .filter_map(|(worker, _, body)| Some((worker, serde_json::from_str(&body).ok()?)))
            .collect();
        let seconds = self.seconds.borrow().all();
        // Numbers and strings, so this can't fail.
        serde_json::to_value(merged::live(&workers, seconds, &self.own())).unwrap_or_default()
    }

    /// Records that a worker has died and is replaced.
    pub(super) fn died(&self, worker: u8) {
        self.restarts.set(self.restarts.get() + 1);
        self.ended.borrow_mut().died(worker);
    }

    fn own(&self) -> Own {
        Own {
            uptime_secs: self.begun.elapsed().as_secs(),
            processes: self.count,
            restarts: self.restarts.get(),
            ended: self.ended.borrow().totals,
        }
    }

    async fn metrics(&self) -> String {
        let answers = self.request_all("GET", "/metrics").await;
        let pages: Vec<(u8, &str)> =
            answers.iter().map(|(worker, _, page)| (*worker, page.as_str())).collect();
        let commits = self.commits.then(|| self.exchange.commits());
        let supervisor = metrics::of_supervisor(self.begun_unix_secs, commits.as_ref());
        merged::metrics(&pages, &supervisor, &self.own())
    }

    async fn status(&self) -> Answer {
        let mut all = self.live().await;
        if let Some(all) = all.as_object_mut() {
            // The history is on the live page.
            all.remove("seconds");
            all.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
            all.insert("reloads".to_owned(), self.accepted.reload_status());
        }
        Answer::json(200, &all)
    }

    /// A response for a command to all workers, with the number of those that have not confirmed it.
    fn done(&self, mut value: Value, answers: &[WorkerAnswer]) -> Answer {
        let silent = usize::from(self.count).saturating_sub(answers.len());
        if let Some(value) = value.as_object_mut().filter(|_| silent > 0) {
            value.insert("workers_silent".to_owned(), silent.into());
        }
        Answer::json(200, &value)
    }

    /// Starts or ends draining at all workers, including their replacements.
    async fn drain(&self, draining: bool) -> Answer {
        self.draining.set(draining);
        let method = if draining { "PUT" } else { "DELETE" };
        let answers = self.command_all(|worker| self.request(worker, method, "/drain")).await;
        self.done(json!({"draining": draining}), &answers)
    }

    /// Reloads the configuration for all workers, or for none. A valid one also applies to replacements.
    pub(super) async fn reload(&self) -> Answer {
        let Reload { changed, kept } = match self.accepted.read_again() {
            Ok(done) => done,
            Err(error) => return Answer::error(422, &error.to_string(), "the configuration is unchanged"),
        };
        let files = self.accepted.last().unwrap_or_default();
        let answers =
            self.command_all(|worker| self.send(worker, |id| ToWorker::Reload { id }, &files)).await;
        self.done(json!({"changed": changed, "kept": kept}), &answers)
    }

    async fn administer(&self, request: &Request) -> Answer {
        let method = request.method.as_str();
        let target = request.target();
        match (&request.parts()[..], method) {
            (["status"], "GET") => self.status().await,
            (["drain"], "PUT" | "DELETE") => self.drain(method == "PUT").await,
            (["reload"], "POST") => self.reload().await,
            _ => self.request_any(method, &target, self.store_timeout + TIMEOUT).await,
        }
    }

    fn may(&self, request: &Request) -> bool {
        self.token.as_deref().is_some_and(|token| request.shows(token))
    }

    /// Collects the figures of all workers every second.
    async fn watch(self: Rc<Self>) {
        let mut interval = tokio::time::interval(Duration::from_secs(1));
        loop {
            interval.tick().await;
            let answers = self.request_all("GET", &format!("/{SECOND}")).await;
            let taken: Vec<(u8, TakenSecond)> = answers
                .iter()
                .filter_map(|(worker, _, body)| Some((*worker, serde_json::from_str(body).ok()?)))
                .collect();
            taken.iter().for_each(|(worker, one)| self.ended.borrow_mut().note(*worker, one.so_far));
            self.seconds.borrow_mut().add(taken.iter().map(|(_, one)| one));
        }
    }
}

fn unavailable() -> Answer {
    Answer::error(503, "no worker process responded", "one may be restarting: retry in a second")
}

/// Starts the configured listeners for administrative requests and metrics.
pub(super) async fn listen(
    requests: &Rc<AdminRequests>,
    config: &Config,
) -> Result<(Option<SocketAddr>, Option<SocketAddr>)> {
    tokio::task::spawn_local(Rc::clone(requests).watch());
    let metrics = match config.metrics {
        Some(address) => Some(listen_for("metrics", address, &config.metrics_hosts, pages(requests)).await?),
        None => None,
    };
    let admin = match &config.admin {
        Some(admin) => Some(listen_for("admin", admin.address, &admin.hosts, admin_of(requests)).await?),
        None => None,
    };
    Ok((metrics, admin))
}

fn pages(requests: &Rc<AdminRequests>) -> Handler {
    let requests = Rc::clone(requests);
    Rc::new(move |request: &Request| {
        if request.method != "GET" {
            return Answer::not_allowed("GET, HEAD").into();
        }
        let requests = Rc::clone(&requests);
        match request.parts()[..] {
            [] => Answer::text(200, "text/html; charset=utf-8", PAGE.to_owned()).into(),
            ["live.json"] => Reply::Later(Box::pin(async move { Answer::json(200, &requests.live().await) })),
            ["metrics"] => {
                Reply::Later(Box::pin(
                    async move { Answer::text(200, CONTENT_TYPE, requests.metrics().await) },
                ))
            }
            _ => {
                let others = "Not found. The paths are /, /live.json and /metrics.\n".to_owned();
                Answer::text(404, "text/plain; charset=utf-8", others).into()
            }
        }
    })
}

fn admin_of(requests: &Rc<AdminRequests>) -> Handler {
    let requests = Rc::clone(requests);
    Rc::new(move |request: &Request| {
        if !requests.may(request) {
            return Answer::unauthorized().into();
        }
        let (requests, request) = (Rc::clone(&requests), request.clone());
        Reply::Later(Box::pin(async move { requests.administer(&request).await }))
    })
}
