//! Metrics for Prometheus.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use strandline_ops::http::{Answer, Handler, Request, exposure, listen_for};
use strandline_ops::metrics::{CONTENT_TYPE, Page};

use super::log::AccessLog;

/// Serves metrics on a task of the current [`LocalSet`](tokio::task::LocalSet). Returns the address.
///
/// # Errors
/// If it can't listen.
pub(super) async fn listen(address: SocketAddr, log: Option<Arc<AccessLog>>) -> Result<SocketAddr> {
    if let Some(warning) = exposure(address) {
        tracing::warn!("--metrics: {warning}");
    }
    #[allow(clippy::disallowed_methods, reason = "the time when the server began")]
    let now = SystemTime::now();
    let begun = now.duration_since(SystemTime::UNIX_EPOCH).as_ref().map_or(0, Duration::as_secs);
    let handler: Handler = Rc::new(move |request| answer(request, log.as_deref(), begun).into());
    listen_for("metrics", address, &[], handler).await
}

fn answer(request: &Request, log: Option<&AccessLog>, begun_unix_secs: u64) -> Answer {
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
    if let Some(log) = log {
        let counts = log.counts();
        let help = "Lines of the access log that were written.";
        page.counter("access_log_lines_total", help, counts.written);
        let help = "Lines of the access log that were lost: the file could not be written, or was too slow.";
        page.counter("access_log_lost_lines_total", help, counts.lost);
    }
    Answer::text(200, CONTENT_TYPE, page.into_text())
}
