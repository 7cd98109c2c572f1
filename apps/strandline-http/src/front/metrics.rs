//! Metrics for Prometheus.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use strandline::Stack;
use strandline_ops::http::{Answer, Handler, Request, exposure, listen_for};
use strandline_ops::metrics::{CONTENT_TYPE, Page};

use super::log::AccessLog;
use super::traffic::Traffic;

/// What the metrics are made of.
pub(super) struct Sources {
    pub(super) traffic: Arc<Traffic>,
    /// The stacks that listen; empty without SCTP.
    pub(super) stacks: Vec<Stack>,
    pub(super) log: Option<Arc<AccessLog>>,
}

/// Serves metrics on a task of the current [`LocalSet`](tokio::task::LocalSet). Returns the address.
///
/// # Errors
/// If it can't listen.
pub(super) async fn listen(address: SocketAddr, sources: Sources) -> Result<SocketAddr> {
    if let Some(warning) = exposure(address) {
        tracing::warn!("--metrics: {warning}");
    }
    #[allow(clippy::disallowed_methods, reason = "the time when the server began")]
    let now = SystemTime::now();
    let begun = now.duration_since(SystemTime::UNIX_EPOCH).as_ref().map_or(0, Duration::as_secs);
    let handler: Handler = Rc::new(move |request| answer(request, &sources, begun).into());
    listen_for("metrics", address, &[], handler).await
}

fn answer(request: &Request, sources: &Sources, begun_unix_secs: u64) -> Answer {
    if request.parts() != ["metrics"] {
        return Answer::text(
            404,
            "text/plain; charset=utf-8",
            "Not found. The path is /metrics.\n".to_owned(),
        );
    }
    if request.method != "GET" {
        return Answer::not_allowed("GET, HEAD");
    }
    let mut page = Page::new("strandline_http");
    page.process(env!("CARGO_PKG_VERSION"), begun_unix_secs);
    let help = "Responses that have begun, by the class of their status.";
    page.counters("responses_total", help, "status", sources.traffic.responses());
    let help = "Requests whose response has not begun.";
    page.gauge("requests_in_progress", help, sources.traffic.in_progress() as f64);
    let associations: usize = sources.stacks.iter().map(Stack::association_count).sum();
    page.gauge("associations", "Associations of clients.", associations as f64);
    if let Some(log) = &sources.log {
        let counts = log.counts();
        let help = "Lines of the access log that were written.";
        page.counter("access_log_lines_total", help, counts.written);
        let help = "Lines of the access log that were lost: the file could not be written, or was too slow.";
        page.counter("access_log_lost_lines_total", help, counts.lost);
    }
    Answer::text(200, CONTENT_TYPE, page.into_text())
}
