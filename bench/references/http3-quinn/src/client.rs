//! The client: one connection, all requests of a burst at once.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bytes::{Buf, Bytes};
use http::Request;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::page::objects;

type Sender = h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>;

#[derive(Debug, clap::Args)]
pub(crate) struct Order {
    #[arg(long)]
    to: IpAddr,
    #[arg(long, default_value_t = 4433)]
    port: u16,
    /// Number of requests at once.
    #[arg(long, default_value_t = 1)]
    burst: usize,
    /// Fetch the objects of the page, all at once as soon as all of the page has arrived.
    #[arg(long, conflicts_with = "burst")]
    page: bool,
    #[arg(long, default_value_t = 60.0)]
    timeout: f64,
    /// Path of the URL; the page's ends with a slash.
    path: String,
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
    body: Vec<u8>,
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
    if order.page {
        let page = burst(&sender, order, vec![order.path.clone()], &mut report).await?;
        let html = String::from_utf8_lossy(page.first().context("no page")?);
        let names: Vec<String> = objects(&html).iter().map(|name| format!("{}{name}", order.path)).collect();
        ensure!(!names.is_empty(), "the page has no objects");
        burst(&sender, order, names, &mut report).await?;
    } else {
        burst(&sender, order, vec![order.path.clone(); order.burst], &mut report).await?;
    }
    report.seconds = begin.elapsed().as_secs_f64();
    report.slowest_ms = report.seconds * 1e3;
    drop(sender);
    driver.abort();
    endpoint.close(0_u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(report)
}

/// Sends all requests at once, adds them to the report, and returns the bodies.
async fn burst(
    sender: &Sender,
    order: &Order,
    paths: Vec<String>,
    report: &mut Report,
) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut all = JoinSet::new();
    report.planned += paths.len();
    report.requests += paths.len();
    for path in paths {
        let uri = format!("https://{}:{}{path}", order.to, order.port);
        all.spawn(one(sender.clone(), uri));
    }
    let mut bodies = Vec::new();
    while let Some(reply) = all.join_next().await {
        let reply = reply??;
        report.replies += 1;
        report.content_bytes_received += reply.body.len();
        report.response_ms.add(reply.response);
        report.transfer_ms.add(reply.transfer);
        report.request_ms.add(reply.response + reply.transfer);
        bodies.push(reply.body);
    }
    Ok(bodies)
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
    let mut body = Vec::new();
    while let Some(mut part) = stream.recv_data().await? {
        body.extend_from_slice(&part.copy_to_bytes(part.remaining()));
    }
    Ok(Reply { response: head, transfer: begin.elapsed() - head, body })
}
