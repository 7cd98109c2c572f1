//! `strandline sip parts`: measures what a REGISTER costs in each of the server's functions, one after the
//! other, on one thread and on real sockets, as in figures 20 and 21 of the 2008 paper by Ono and
//! Schulzrinne.

mod link;
mod meter;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::codec::{Index, Message};
use crate::service::{Advertised, Seeds, Service, Settings};
use crate::transaction::{Flow, Protocol, Time};

use super::urgency::Urgency;
use link::Link;
use meter::{Meter, Part};
use strandline_output::outln;

/// The transport of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// SCTP over UDP, one socket for all associations.
    SctpMany,
    /// SCTP over UDP, one socket for each association.
    SctpOne,
}

/// The lifetime of a TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Lifetime {
    /// For the whole run.
    Persistent,
    /// Opened by a request, and kept.
    Open,
    /// For one request.
    Transaction,
}

/// Measures what a REGISTER costs: how often each of the server's functions is called for it, and how long
/// that takes.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline sip parts                                            100 REGISTERs over UDP, 10 per second
  strandline sip parts --transport tcp --lifetime transaction     each on its own connection
  strandline sip parts --transport sctp-many --rate 100 --json    machine-readable")]
pub struct Args {
    /// Transport of the requests
    #[arg(long, value_enum, default_value = "udp")]
    pub transport: Transport,
    /// Lifetime of a TCP connection
    #[arg(long, value_enum, default_value = "persistent")]
    pub lifetime: Lifetime,
    /// Number of requests
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub count: u32,
    /// Requests per second: few, so that none has to wait
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    pub rate: f64,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the measurement.
///
/// # Errors
/// Returns an error if a socket can't be opened or used.
pub(super) fn run(args: &Args) -> Result<ExitCode> {
    if !(args.rate > 0.0 && args.rate.is_finite()) {
        bail!("--rate must be more than 0");
    }
    if args.transport != Transport::Tcp && args.lifetime != Lifetime::Persistent {
        bail!("--lifetime requires --transport tcp");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(measure(args))?;
    if args.json {
        outln!("{report}");
    } else {
        print(&report);
    }
    Ok(ExitCode::SUCCESS)
}

async fn measure(args: &Args) -> Result<Value> {
    let mut service = service(args.transport);
    let mut link = Link::open(args.transport, args.lifetime).await?;
    let mut meter = Meter::new();
    let mut pause = tokio::time::interval(Duration::from_secs_f64(1.0 / args.rate));
    for number in 0..args.count {
        pause.tick().await;
        one(&mut service, &mut link, args.transport, number, &mut meter).await?;
        meter.end_request();
    }
    let (calls, times) = meter.report();
    let of = |name: &str| calls.get(name).and_then(Value::as_f64).unwrap_or_default();
    Ok(json!({
        "requests": args.count,
        "calls": calls,
        // The work of the event loop for a socket, and the work for bytes.
        "socket_calls": of("accept") + of("close"),
        "reading_calls": of("read") + of("frame") + of("sort") + of("parse"),
        "threads": 0,
        "us": times,
    }))
}

/// Measures one REGISTER.
async fn one(
    service: &mut Service,
    link: &mut Link,
    transport: Transport,
    number: u32,
    meter: &mut Meter,
) -> Result<()> {
    let request = register(transport, number);
    let (from, bytes) = link.take(request.as_bytes(), meter).await?;
    meter.time(Part::Sort, || std::hint::black_box(Urgency::of(&bytes)));
    meter.time(Part::Parse, || {
        let mut index = Index::new();
        let message = Message::parse(&bytes, &mut index).ok()?;
        message.essentials().ok().map(|essentials| std::hint::black_box(essentials.cseq.number))
    });
    let now = Time::ZERO + meter.elapsed();
    let flow = Flow { connection: 1, ..Flow::to(protocol(transport), from) };
    let flow = if transport == Transport::Udp { Flow { connection: 0, ..flow } } else { flow };
    meter.time(Part::Operate, || service.handle_message(now, flow, &bytes));
    let answer = service.output().out.iter().next().map(|(_, bytes)| bytes.to_vec());
    service.output_mut().out.clear();
    let answer = answer.filter(|answer| answer.starts_with(b"SIP/2.0 200 "));
    link.answer(from, &answer.context("the REGISTER was not answered with 200")?, meter).await
}

fn service(transport: Transport) -> Service {
    let advertised = Advertised::new(protocol(transport), "127.0.0.1".to_owned(), 5060);
    let settings = Settings {
        domains: vec!["example.com".to_owned()],
        advertised: vec![advertised],
        ..Settings::default()
    };
    // No limit on password guessing.
    let mut service = Service::new(settings, &Seeds { tokens: [2; 16], ..Seeds::repeated(1) }, 0);
    service.connection_opened(1);
    service
}

const fn protocol(transport: Transport) -> Protocol {
    match transport {
        Transport::Udp => Protocol::Udp,
        Transport::Tcp => Protocol::Tcp,
        Transport::SctpMany | Transport::SctpOne => Protocol::Sctp,
    }
}

fn register(transport: Transport, number: u32) -> String {
    let name = protocol(transport).in_uri().to_ascii_uppercase();
    let contact = SocketAddr::from(([127, 0, 0, 1], 5070));
    format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/{name} {contact};branch=z9hG4bKr{number};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:u{number}@example.com>;tag={number}\r\nTo: <sip:u{number}@example.com>\r\n\
         Call-ID: r{number}@{contact}\r\nCSeq: 1 REGISTER\r\nContact: <sip:u{number}@{contact}>\r\nExpires: 3600\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

fn print(report: &Value) {
    outln!("{:<10}{:>10}{:>12}", "", "calls", "median, us");
    for name in ["accept", "read", "frame", "sort", "parse", "operate", "write", "close"] {
        let of = |what: &str| report[what][name].as_f64().unwrap_or_default();
        outln!("{name:<10}{:>10.2}{:>12.3}", of("calls"), of("us"));
    }
    outln!(
        "Per REGISTER, for {} of them. `operate` includes a second parse; no threads are created.",
        report["requests"]
    );
}
