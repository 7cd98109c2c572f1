//! Metrics for Prometheus, over HTTP on a port of their own. They are read on the shard's own thread: nothing waits for a
//! lock.

use std::fmt::Write as _;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::hub::Hub;
use super::urgency::Urgency;

/// A request that is longer, or takes longer to come, is nobody's who wants metrics.
const REQUEST_MAX: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(5);
/// Requests that are answered at once.
const AT_ONCE: usize = 16;

/// Answers until the task is ended.
pub(super) async fn serve(listener: TcpListener, hub: Rc<Hub>) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let hub = Rc::clone(&hub);
                tokio::task::spawn_local(async move {
                    // Who goes away early doesn't want it.
                    let _ = tokio::time::timeout(PATIENCE, answer(stream, &hub)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a connection for metrics");
                tokio::time::sleep(PATIENCE).await;
            }
        }
    }
}

async fn answer(mut stream: TcpStream, hub: &Hub) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
        if request.len() > REQUEST_MAX || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let wanted = [&b"GET /metrics "[..], b"GET /metrics?"].iter().any(|line| request.starts_with(line));
    let (status, body) = match wanted {
        true => ("200 OK", text(hub)),
        false => ("404 Not Found", "There is /metrics here.\n".to_owned()),
    };
    let len = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {len}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// Writes lines of metrics. Writing to a text doesn't fail.
struct Page(String);

impl Page {
    /// What the samples that follow are.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP strandline_sip_{name} {help}\n# TYPE strandline_sip_{name} {kind}");
    }

    fn sample(&mut self, name: &str, label: &str, value: f64) {
        let _ = match label {
            "" => writeln!(self.0, "strandline_sip_{name} {value}"),
            label => writeln!(self.0, "strandline_sip_{name}{{{label}}} {value}"),
        };
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help);
        self.sample(name, "", value as f64);
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, "gauge", help);
        self.sample(name, "", value);
    }

    fn by_urgency(&mut self, name: &str, help: &str, counts: &[u64]) {
        self.family(name, "counter", help);
        for (urgency, count) in Urgency::ALL.iter().zip(counts) {
            self.sample(name, &format!("urgency=\"{}\"", urgency.name()), *count as f64);
        }
    }
}

/// All metrics as text.
fn text(hub: &Hub) -> String {
    let mut page = Page(String::with_capacity(8192));
    inbox(hub, &mut page);
    let service = hub.service.borrow();
    let counters = service.counters();
    page.counter("requests_total", "Requests that were handled.", counters.requests);
    page.counter("responses_total", "Responses that were handled.", counters.responses);
    page.counter("malformed_total", "Messages that made no sense.", counters.malformed);
    page.counter("registered_total", "REGISTERs answered with 200.", counters.registered);
    page.counter("forwarded_total", "Requests that were forwarded.", counters.forwarded);
    page.counter("calls_total", "Calls that were answered.", counters.calls);
    page.counter("refused_total", "Requests refused because there were too many.", counters.refused);
    page.gauge("users", "Users with bindings.", service.locations().len() as f64);
    let (servers, clients) = service.transactions();
    page.family("transactions", "gauge", "Transactions that are not over.");
    page.sample("transactions", "side=\"server\"", servers as f64);
    page.sample("transactions", "side=\"client\"", clients as f64);
    page.gauge("connections", "TCP connections.", hub.connections.len() as f64);
    let associations = hub.sctp.borrow().as_ref().map_or(0, |sctp| sctp.len());
    page.gauge("associations", "SCTP associations.", associations as f64);
    let share = service.allowed_share();
    page.gauge("allowed_share", "Share of what they have that neighbours may send (RFC 7339).", share);
    page.0
}

fn inbox(hub: &Hub, page: &mut Page) {
    let now = hub.now();
    let (counters, waiting, longest) =
        hub.inbox(|inbox| (inbox.counters, inbox.len(), inbox.longest_wait(now)));
    page.by_urgency("came_total", "Messages that came, by urgency.", &counters.came);
    page.by_urgency("handled_total", "Messages that were handled in time, by urgency.", &counters.handled);
    page.by_urgency("late_total", "Messages that had waited for too long, by urgency.", &counters.late);
    page.family("dropped_total", "counter", "Messages that were not let in.");
    page.sample("dropped_total", "reason=\"no_room\"", counters.no_room as f64);
    page.sample("dropped_total", "reason=\"source\"", counters.too_many as f64);
    page.gauge("waiting", "Messages that wait.", waiting as f64);
    page.gauge("longest_wait_seconds", "How long the first of them has waited.", longest.as_secs_f64());
    page.family("waited_seconds_total", "counter", "How long all have waited that were handled.");
    page.sample("waited_seconds_total", "", counters.waited_ms as f64 / 1000.0);
}
