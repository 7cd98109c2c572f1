//! The sender over SCTP.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use strandline::{Association, Peer, SendInfo, StreamId};
use tokio::task::JoinSet;

use super::meter::{Meter, Stopwatch, now};
use super::report::{AssociationReport, Report};
use super::{SendArgs, seconds, stack};

/// The clock is read once for so many bytes (or messages, if they are small).
const CHECK_BYTES: usize = 1 << 20;
const CHECK_MESSAGES: usize = 1 << 10;

pub(crate) async fn run(args: &SendArgs) -> anyhow::Result<Report> {
    let any = if args.to.is_ipv4() {
        std::net::Ipv4Addr::UNSPECIFIED.into()
    } else {
        std::net::Ipv6Addr::UNSPECIFIED.into()
    };
    let stack = stack(&args.common, any, 0, args.encapsulation_port, !args.nagle)?;
    let mut associations = Vec::new();
    for _ in 0..args.associations {
        let peer = Peer::new(args.to, args.common.port);
        let association = Association::connect(&stack, peer).await;
        associations
            .push(association.with_context(|| format!("setting up an association with {}", args.to))?);
    }
    let meter = Arc::new(Meter::default());
    if !args.common.quiet {
        let meter = Arc::clone(&meter);
        tokio::spawn(async move { meter.print_lines().await });
    }
    let watch = Stopwatch::start()?;
    let plan = Plan {
        // The content doesn't matter, but zeros may be treated in ways of their own.
        data: (0..args.size).map(|i| i as u8).collect(),
        streams: args.streams,
        unordered: args.unordered,
        end: watch.begin + seconds(args.duration)?,
    };
    let mut senders = JoinSet::new();
    for association in associations {
        senders.spawn(send(association, plan.clone(), Arc::clone(&meter)));
    }
    let mut reports = Vec::new();
    while let Some(ended) = senders.join_next().await {
        reports.extend(ended.context("a sending task failed")??);
    }
    let (seconds, cpu) = watch.lap()?;
    let mut report = Report::new("sender", "sctp", &meter, seconds, cpu);
    report.associations = reports;
    stack.wait_idle().await;
    Ok(report)
}

/// What each association sends.
#[derive(Debug, Clone)]
struct Plan {
    data: Bytes,
    streams: u16,
    unordered: bool,
    end: Instant,
}

/// Sends until the time is over, and then waits until all has been delivered.
async fn send(
    association: Association,
    plan: Plan,
    meter: Arc<Meter>,
) -> anyhow::Result<Option<AssociationReport>> {
    let status = association.status().context("the association ended")?;
    let streams = plan.streams.min(status.outbound_streams).max(1);
    let step = (CHECK_BYTES / plan.data.len()).clamp(1, CHECK_MESSAGES);
    let mut info = SendInfo { unordered: plan.unordered, ..SendInfo::default() };
    while now() < plan.end {
        for _ in 0..step {
            // As an application does that has its data in a buffer of its own: it is copied.
            association.send(&plan.data, info).await?;
            meter.count(plan.data.len());
            info.stream = StreamId((info.stream.0 + 1) % streams);
        }
    }
    // Windows and counters are of interest while it sends; after the shutdown they are gone.
    let report = AssociationReport::of(&association);
    let grace = Duration::from_secs(30);
    let ended = tokio::time::timeout(grace, association.shutdown()).await;
    ended.context("the other side did not finish")?;
    Ok(report)
}
