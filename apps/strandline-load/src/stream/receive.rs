//! The receiver over SCTP.

use std::sync::Arc;

use anyhow::Context;
use strandline::{Association, Listener};
use tokio::task::JoinSet;

use super::meter::{Meter, Stopwatch};
use super::report::{AssociationReport, Report};
use super::{ReceiveArgs, stack};

pub(crate) async fn run(args: &ReceiveArgs) -> anyhow::Result<Report> {
    let stack = stack(&args.common, args.bind, args.encapsulation_port, 0, true)?;
    let listener = Listener::bind(&stack, args.common.port)?;
    let meter = Arc::new(Meter::default());
    if !args.common.quiet {
        let meter = Arc::clone(&meter);
        tokio::spawn(async move { meter.print_lines().await });
    }
    eprintln!("receiving on SCTP port {}", listener.port());
    // The clock starts when the first sender comes, and stops when the last one has gone.
    let first = tokio::select! {
        first = listener.accept() => first?,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.context("waiting for Ctrl-C")?;
            let watch = Stopwatch::start()?;
            let (seconds, cpu) = watch.lap()?;
            return Ok(Report::new("receiver", "sctp", &meter, seconds, cpu));
        }
    };
    let watch = Stopwatch::start()?;
    let mut sinks = JoinSet::new();
    sinks.spawn(drain(first, Arc::clone(&meter)));
    let mut associations = Vec::new();
    let mut end = watch.lap()?;
    loop {
        tokio::select! {
            next = listener.accept() => {
                sinks.spawn(drain(next?, Arc::clone(&meter)));
            }
            Some(ended) = sinks.join_next() => {
                end = watch.lap()?;
                associations.extend(ended.context("a receiving task failed")?);
                if args.once && sinks.is_empty() {
                    break;
                }
            }
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.context("waiting for Ctrl-C")?;
                break;
            }
        }
    }
    let (seconds, cpu) = end;
    let mut report = Report::new("receiver", "sctp", &meter, seconds, cpu);
    report.associations = associations;
    stack.wait_idle().await;
    Ok(report)
}

/// Reads an association to its end.
async fn drain(association: Association, meter: Arc<Meter>) -> Option<AssociationReport> {
    let mut messages = Vec::new();
    loop {
        match association.recv_many(&mut messages, 256).await {
            Ok(0) => return AssociationReport::of(&association),
            Ok(_) => {
                for message in messages.drain(..) {
                    meter.count(message.data.len());
                }
            }
            Err(error) => {
                eprintln!("an association ended: {error}");
                return AssociationReport::of(&association);
            }
        }
    }
}
