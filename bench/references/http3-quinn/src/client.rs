//! The client: one connection, all requests of a burst at once, a burst as soon as the one before is complete.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::{Buf, Bytes};
use http::Request;
use serde::Serialize;
use tokio::task::JoinSet;

type Sender = h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>;

#[derive(Debug, clap::Args)]
pub(crate) struct Order {
    #[arg(long)]
    to: IpAddr,
    #[arg(long, default_value_t = 4433)]
    port: u16,
    /// Numbers of requests of the bursts.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    burst: Vec<usize>,
    #[arg(long, default_value_t = 60.0)]
    timeout: f64,
    /// Paths of the URLs, which the requests take in turn.
    #[arg(required = true)]
    paths: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    transport: &'static str,
    http: &'static str,
    planned: usize,
    requests: usize,
    replies: usize,
    errors_total: usize,
    seconds: f64,
    content_bytes_received: usize,
    /// The largest time from when a request was due, which is the beginning of its burst, the first with the set-up of
    /// the connection, until the end of its response.
    slowest_ms: f64,
    connect_ms: Longest,
    response_ms: Longest,
    transfer_ms: Longest,
    /// From a request until the end of its response.
    request_ms: Longest,
}

/// The largest of several times.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Longest {
    max: f64,
}

impl Longest {
    fn add(&mut self, time: Duration) {
        self.max = self.max.max(time.as_secs_f64() * 1e3);
    }
}

struct Reply {
    response: Duration,
    transfer: Duration,
    bytes: usize,
    end: Instant,
}

pub(crate) async fn get(order: &Order) -> anyhow::Result<()> {
    let limit = Duration::try_from_secs_f64(order.timeout)?;
    let report = tokio::time::timeout(limit, fetch(order)).await;
    let report = report.with_context(|| format!("not done in {} s", order.timeout))??;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

async fn fetch(order: &Order) -> anyhow::Result<Report> {
    let mut config = quic_identity::client(crate::ALPN)?;
    config.transport_config(crate::transport());
    let any = if order.to.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        std::net::Ipv6Addr::UNSPECIFIED.into()
    };
    let endpoint = crate::endpoint(SocketAddr::new(any, 0), None)?;
    let begin = Instant::now();
    let to = SocketAddr::new(order.to, order.port);
    let connection = endpoint.connect_with(config, to, "localhost")?.await?;
    let mut report = Report {
        transport: "quic",
        http: "3",
        planned: 0,
        requests: 0,
        replies: 0,
        errors_total: 0,
        seconds: 0.0,
        content_bytes_received: 0,
        slowest_ms: 0.0,
        connect_ms: Longest::default(),
        response_ms: Longest::default(),
        transfer_ms: Longest::default(),
        request_ms: Longest::default(),
    };
    report.connect_ms.add(begin.elapsed());
    let (mut driver, sender) = h3::client::new(h3_quinn::Connection::new(connection)).await?;
    let driver = tokio::spawn(async move { driver.wait_idle().await });
    let mut due = begin;
    for paths in bursts(&order.paths, &order.burst) {
        burst(&sender, order, paths, due, &mut report).await?;
        due = Instant::now();
    }
    report.seconds = begin.elapsed().as_secs_f64();
    drop(sender);
    driver.abort();
    endpoint.close(0_u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(report)
}

/// Returns the paths of the requests of each burst.
fn bursts(paths: &[String], sizes: &[usize]) -> Vec<Vec<String>> {
    let mut turn = paths.iter().cycle();
    sizes.iter().map(|size| turn.by_ref().take(*size).cloned().collect()).collect()
}

/// Sends all requests at once, and adds them to the report.
async fn burst(
    sender: &Sender,
    order: &Order,
    paths: Vec<String>,
    due: Instant,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut all = JoinSet::new();
    report.planned += paths.len();
    report.requests += paths.len();
    for path in paths {
        let uri = format!("https://{}:{}{path}", order.to, order.port);
        all.spawn(one(sender.clone(), uri));
    }
    while let Some(reply) = all.join_next().await {
        let reply = reply??;
        report.replies += 1;
        report.content_bytes_received += reply.bytes;
        report.response_ms.add(reply.response);
        report.transfer_ms.add(reply.transfer);
        report.request_ms.add(reply.response + reply.transfer);
        report.slowest_ms = report.slowest_ms.max((reply.end - due).as_secs_f64() * 1e3);
    }
    Ok(())
}

async fn one(mut sender: Sender, uri: String) -> anyhow::Result<Reply> {
    let begin = Instant::now();
    let mut stream = sender.send_request(Request::get(&uri).body(())?).await?;
    stream.finish().await?;
    let response = stream.recv_response().await?;
    if !response.status().is_success() {
        bail!("{uri}: {}", response.status());
    }
    let head = begin.elapsed();
    let mut bytes = 0;
    while let Some(part) = stream.recv_data().await? {
        bytes += part.remaining();
    }
    let end = Instant::now();
    Ok(Reply { response: head, transfer: end - begin - head, bytes, end })
}

#[cfg(test)]
mod tests;
