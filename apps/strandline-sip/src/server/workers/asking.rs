//! Questions of those who look after the server, asked of its workers and answered for all of them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use subtle::ConstantTimeEq;
use tokio::sync::oneshot;

use crate::server::config::Config;
use crate::server::http::client::escape;
use crate::server::http::{Answer, Handler, Reply, Request, listen_for};
use crate::server::live::{Live, Seconds, TakenSecond};
use crate::server::pages::PAGE;

use super::exchange::Exchange;
use super::frame::ToWorker;
use super::merged;

/// What a worker is asked for each second.
pub(super) const SECOND: &str = "second";
/// How long a worker may take, which may have other things to do.
const PATIENCE: Duration = Duration::from_millis(1500);
/// For what changes something, such as a configuration with a file of many users.
const PATIENCE_TO_CHANGE: Duration = Duration::from_secs(15);

/// Asks workers.
pub(super) struct Asking {
    exchange: Arc<Exchange>,
    count: u8,
    next: Cell<u64>,
    pending: RefCell<HashMap<u64, oneshot::Sender<(u16, String)>>>,
    /// What happened at all of them, second by second.
    seconds: RefCell<Seconds>,
    token: Option<String>,
    store_timeout: Duration,
    /// How often a worker was started again.
    pub(super) restarts: Cell<u64>,
    /// All drain, those too that begin later.
    draining: Cell<bool>,
}

/// What a worker says, and its number.
type Said = (u8, u16, String);

impl Asking {
    pub(super) fn new(exchange: Arc<Exchange>, config: &Config) -> Rc<Self> {
        Rc::new(Self {
            exchange,
            count: config.processes,
            next: Cell::new(0),
            pending: RefCell::default(),
            seconds: RefCell::default(),
            token: config.admin.as_ref().map(|admin| admin.token.clone()),
            store_timeout: config.store_timeout,
            restarts: Cell::default(),
            draining: Cell::default(),
        })
    }

    /// A worker has answered.
    pub(super) fn answered(&self, id: u64, status: u16, body: Vec<u8>) {
        if let Some(waiting) = self.pending.borrow_mut().remove(&id) {
            // Whoever asked may be gone.
            let _ = waiting.send((status, String::from_utf8_lossy(&body).into_owned()));
        }
    }

    /// A worker serves: it is told what the others were.
    pub(super) fn serves(&self, worker: u8) {
        if self.draining.get() {
            let (id, method, target) = (self.number(), "PUT".to_owned(), "/drain".to_owned());
            // If it is gone, the next one is told.
            self.exchange.tell(worker, &ToWorker::Ask { id, method, target });
        }
    }

    fn number(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }

    /// Asks one; `None` if it is gone, or has no time.
    async fn ask(&self, worker: u8, method: &str, target: &str, patience: Duration) -> Option<Said> {
        let id = self.number();
        let (sender, answer) = oneshot::channel();
        self.pending.borrow_mut().insert(id, sender);
        let ask = ToWorker::Ask { id, method: method.to_owned(), target: target.to_owned() };
        let answer = match self.exchange.tell(worker, &ask) {
            true => tokio::time::timeout(patience, answer).await.ok().and_then(Result::ok),
            false => None,
        };
        self.pending.borrow_mut().remove(&id);
        answer.map(|(status, body)| (worker, status, body))
    }

    /// Asks all that serve, at once.
    async fn ask_all(&self, method: &str, target: &str, patience: Duration) -> Vec<Said> {
        let asked = self.exchange.serving().into_iter();
        let asked = asked.map(|worker| self.ask(worker, method, target, patience));
        futures_util::future::join_all(asked).await.into_iter().flatten().collect()
    }

    /// Asks one that serves, and another if that one says nothing; but what changes something is asked for once.
    async fn ask_any(&self, method: &str, target: &str, patience: Duration) -> Answer {
        let changes = method != "GET";
        for worker in self.exchange.serving() {
            match self.ask(worker, method, target, patience).await {
                Some((_, status, body)) => return Answer::text(status, "application/json", body),
                None if changes => {
                    return Answer::error(
                        503,
                        "the process that was asked has not answered",
                        "it may have done it, or may do it yet: look before you ask again",
                    );
                }
                None => {}
            }
        }
        unavailable()
    }

    async fn live(&self) -> Value {
        let said = self.ask_all("GET", "/live.json", PATIENCE).await;
        let workers: Vec<(u8, Live)> = said
            .into_iter()
            .filter_map(|(worker, _, body)| Some((worker, serde_json::from_str(&body).ok()?)))
            .collect();
        let seconds = self.seconds.borrow().all();
        let mut all = serde_json::to_value(merged::live(&workers, seconds)).unwrap_or_default();
        if let Some(all) = all.as_object_mut() {
            all.insert("processes".to_owned(), self.count.into());
            all.insert("restarts".to_owned(), self.restarts.get().into());
        }
        all
    }

    async fn metrics(&self) -> String {
        let said = self.ask_all("GET", "/metrics", PATIENCE).await;
        let pages: Vec<(u8, &str)> = said.iter().map(|(worker, _, page)| (*worker, page.as_str())).collect();
        merged::metrics(&pages, self.restarts.get())
    }

    async fn status(&self) -> Answer {
        let mut all = self.live().await;
        if let Some(all) = all.as_object_mut() {
            // Second by second it stands on the live page.
            all.remove("seconds");
            all.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
        }
        Answer::json(200, &all)
    }

    /// Has all workers do it: one that can't stands for all.
    async fn have_all(&self, method: &str, target: &str) -> Answer {
        let said = self.ask_all(method, target, PATIENCE_TO_CHANGE).await;
        let worst = said.iter().max_by_key(|(_, status, _)| *status);
        match worst {
            Some((_, status, body)) if said.len() == usize::from(self.count) || *status != 200 => {
                Answer::text(*status, "application/json", body.clone())
            }
            Some((_, _, body)) => {
                let mut value: Value = serde_json::from_str(body).unwrap_or_default();
                if let Some(value) = value.as_object_mut() {
                    let silent = usize::from(self.count) - said.len();
                    value.insert("workers_silent".to_owned(), silent.into());
                }
                Answer::json(200, &value)
            }
            None => unavailable(),
        }
    }

    async fn administer(&self, request: &Request) -> Answer {
        let method = request.method.as_str();
        let target = request.target();
        match (&request.parts()[..], method) {
            (["status"], "GET") => self.status().await,
            (["drain"], "PUT" | "DELETE") => {
                self.draining.set(method == "PUT");
                self.have_all(method, &target).await
            }
            (["reload"], "POST") => self.have_all(method, &target).await,
            _ => self.ask_any(method, &target, self.store_timeout + PATIENCE).await,
        }
    }

    fn may(&self, request: &Request) -> bool {
        let shown = request.token.as_deref().unwrap_or_default();
        let token = self.token.as_deref().unwrap_or_default();
        !token.is_empty() && bool::from(shown.as_bytes().ct_eq(token.as_bytes()))
    }

    /// Looks every second at what happened at all workers.
    async fn watch(self: Rc<Self>) {
        let mut interval = tokio::time::interval(Duration::from_secs(1));
        loop {
            interval.tick().await;
            let said = self.ask_all("GET", &format!("/{SECOND}"), PATIENCE).await;
            let taken: Vec<TakenSecond> =
                said.iter().filter_map(|(_, _, body)| serde_json::from_str(body).ok()).collect();
            self.seconds.borrow_mut().add(&taken);
        }
    }
}

fn unavailable() -> Answer {
    Answer::error(503, "no process has answered", "one may be starting again: try it in a second")
}

/// Listens for them, where the configuration says so.
pub(super) async fn listen(
    asking: &Rc<Asking>,
    config: &Config,
) -> Result<(Option<SocketAddr>, Option<SocketAddr>)> {
    tokio::task::spawn_local(Rc::clone(asking).watch());
    let metrics = match config.metrics {
        Some(address) => Some(listen_for("metrics", address, pages(asking)).await?),
        None => None,
    };
    let admin = match &config.admin {
        Some(admin) => Some(listen_for("admin", admin.address, admin_of(asking)).await?),
        None => None,
    };
    Ok((metrics, admin))
}

fn pages(asking: &Rc<Asking>) -> Handler {
    let asking = Rc::clone(asking);
    Rc::new(move |request: &Request| {
        if request.method != "GET" {
            return Answer::not_allowed("GET, HEAD").into();
        }
        let asking = Rc::clone(&asking);
        match request.parts()[..] {
            [] => Answer::text(200, "text/html; charset=utf-8", PAGE.to_owned()).into(),
            ["live.json"] => Reply::Later(Box::pin(async move { Answer::json(200, &asking.live().await) })),
            ["metrics"] => Reply::Later(Box::pin(async move {
                Answer::text(200, "text/plain; version=0.0.4; charset=utf-8", asking.metrics().await)
            })),
            _ => {
                let others = "There are / and /live.json and /metrics here.\n".to_owned();
                Answer::text(404, "text/plain; charset=utf-8", others).into()
            }
        }
    })
}

fn admin_of(asking: &Rc<Asking>) -> Handler {
    let asking = Rc::clone(asking);
    Rc::new(move |request: &Request| {
        if !asking.may(request) {
            return Answer::unauthorized().into();
        }
        let (asking, request) = (Rc::clone(&asking), request.clone());
        Reply::Later(Box::pin(async move { asking.administer(&request).await }))
    })
}

impl Request {
    /// As it stands in its first line.
    fn target(&self) -> String {
        let path: String = self.path.iter().map(|part| format!("/{}", escape(part))).collect();
        let query: Vec<String> =
            self.query().iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
        if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
    }
}
