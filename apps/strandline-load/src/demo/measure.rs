//! The measurements of the demo, one after another, each with its own server.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result};
use serde::Serialize;
use strandline_measure::raise_open_files;
use strandline_output::errln;

use crate::controller::Fleet;
use crate::echo_process::Server;
use crate::job::{Content, Encapsulation, Job, Outcome, Style, Transport};
use crate::kernel::Look;
use crate::report::LoadReport;
use crate::served::{Memory, SETTLE, TCP_EACH_MAX, each};
use crate::trace::Steps;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Seconds of the cases whose associations are not counted.
const SHORT_S: f64 = 4.0;

/// Number of set-ups for the time between packets, one after another with enough distance not to overlap.
const TRACED: u64 = 400;
const TRACED_RATE: f64 = 250.0;

/// The measurements to make.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) associations: u64,
    pub(crate) rate: f64,
    pub(crate) message_bytes: usize,
    pub(crate) raw: bool,
    pub(crate) quiet: bool,
}

/// The results.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    pub(crate) associations: u64,
    pub(crate) rate: f64,
    pub(crate) message_bytes: usize,
    pub(crate) cases: Vec<Case>,
    /// Reason why raw IP was left out.
    pub(crate) raw_left_out: Option<String>,
    #[serde(skip)]
    pub(crate) regular_steps: Steps,
    #[serde(skip)]
    pub(crate) piggyback_steps: Steps,
    #[serde(skip)]
    pub(crate) tcp_steps: Steps,
    /// The steps for programs: median milliseconds since the packet before.
    pub(crate) steps_ms: Vec<(String, String, f64)>,
}

/// One row of the tables.
#[derive(Debug, Serialize)]
pub(crate) struct Case {
    #[serde(flatten)]
    pub(crate) load: LoadReport,
    pub(crate) memory: Option<Memory>,
}

impl Results {
    pub(crate) fn case(
        &self,
        transport: Transport,
        style: Style,
        encapsulation: Option<&str>,
    ) -> Option<&Case> {
        self.cases.iter().find(|case| {
            case.load.transport == transport
                && case.load.style == style
                && case.load.encapsulation == encapsulation
        })
    }
}

/// Description of UDP as carrier.
pub(crate) const IN_UDP: Option<&str> = Some("over UDP");
pub(crate) const ON_RAW_IP: Option<&str> = Some("over raw IP");

pub(crate) async fn run(plan: &Plan) -> Result<Results> {
    let mut results = Results {
        associations: plan.associations,
        rate: plan.rate,
        message_bytes: plan.message_bytes,
        cases: Vec::new(),
        raw_left_out: None,
        regular_steps: Steps::default(),
        piggyback_steps: Steps::default(),
        tcp_steps: Steps::default(),
        steps_ms: Vec::new(),
    };
    let cases = &mut results.cases;
    cases.push(plan.sctp(Transport::Sctp, Style::Regular, true).await?);
    cases.push(plan.sctp(Transport::SctpMany, Style::Piggyback, true).await?);
    cases.push(plan.sctp(Transport::SctpMany, Style::Regular, false).await?);
    cases.push(plan.sctp(Transport::Sctp, Style::Piggyback, false).await?);
    cases.push(plan.udp().await?);
    match plan.raw().await {
        Ok(more) => cases.extend(more),
        Err(error) => results.raw_left_out = Some(format!("{error:#}")),
    }
    results.regular_steps = plan.trace(Transport::Sctp, Style::Regular).await?;
    results.piggyback_steps = plan.trace(Transport::Sctp, Style::Piggyback).await?;
    results.tcp_steps = plan.trace(Transport::Tcp, Style::Regular).await?;
    // TCP comes last, because the kernel continues to process connections whose processes are gone.
    results.cases.push(plan.tcp().await?);
    for (name, steps) in [
        ("regular", &results.regular_steps),
        ("piggyback", &results.piggyback_steps),
        ("tcp", &results.tcp_steps),
    ] {
        let medians = steps.medians_ms();
        results.steps_ms.extend(medians.map(|(step, median)| (name.to_owned(), step.to_owned(), median)));
    }
    Ok(results)
}

impl Plan {
    fn job(
        &self,
        transport: Transport,
        style: Style,
        server: SocketAddr,
        encapsulation: Encapsulation,
    ) -> Job {
        Job {
            transport,
            content: Content::Letters,
            style,
            encapsulation,
            server,
            message_bytes: self.message_bytes,
            rate: self.rate,
            count: ((self.rate * SHORT_S) as u64).clamp(1, self.associations),
            number: 0,
            clients: 1,
            offset_s: 0.0,
            persistent: 0,
            hold: false,
            timeout_s: 10.0,
            trace: false,
            pcap: None,
        }
    }

    fn case(&self, jobs: &[Job], outcome: &Outcome, memory: Option<Memory>) -> Result<Case> {
        let job = jobs.first().context("the case has no job")?;
        let encapsulation = match job.encapsulation {
            _ if !job.transport.is_sctp() => None,
            Encapsulation::Udp(_) => IN_UDP,
            Encapsulation::Raw => ON_RAW_IP,
        };
        let what = (job.transport, job.style, encapsulation);
        let load = LoadReport::new(what, self.message_bytes, self.rate, jobs.len(), outcome);
        let case = Case { load, memory };
        if !self.quiet {
            errln!("      {}", in_a_line(&case));
        }
        Ok(case)
    }

    fn announce(&self, title: &str) {
        if !self.quiet {
            errln!("  {title}");
        }
    }

    async fn sctp(&self, transport: Transport, style: Style, hold: bool) -> Result<Case> {
        let server = Server::sctp(None).await?;
        let mut job = self.sctp_job(&server, transport, style)?;
        if hold {
            job.hold = true;
            job.count = self.associations;
        }
        let title = title(&job);
        self.announce(&title);
        let before = server.memory()?;
        let jobs = [job];
        let mut fleet = Fleet::start(&jobs).await?;
        let outcome = fleet.run(&title).await?;
        let memory = if hold {
            tokio::time::sleep(SETTLE).await;
            let process = server.memory()?.saturating_sub(before);
            fleet.end().await?;
            Some(Memory { process_bytes: each(process, outcome.held), kernel_bytes: 0.0 })
        } else {
            fleet.release().await?;
            None
        };
        server.end().await?;
        self.case(&jobs, &outcome, memory)
    }

    fn sctp_job(&self, server: &Server, transport: Transport, style: Style) -> Result<Job> {
        let listening = &server.listening;
        let port = if transport == Transport::SctpMany { listening.sctp_many } else { listening.sctp };
        let port = port.context("the echo server has no SCTP port")?;
        let encapsulation = listening.encapsulation.context("the echo server has no encapsulation port")?;
        Ok(self.job(transport, style, (HERE, port).into(), Encapsulation::Udp(encapsulation.port())))
    }

    /// Measures TCP with several servers and clients, because the descriptors of a process and the peers of a
    /// port are limited.
    async fn tcp(&self) -> Result<Case> {
        let each_max = raise_open_files().min(TCP_EACH_MAX);
        let processes = self.associations.div_ceil(each_max).max(1);
        let (mut servers, mut jobs) = (Vec::new(), Vec::new());
        for number in 0..processes {
            let server = Server::tcp().await?;
            let address = server.listening.tcp.context("the echo server has no TCP port")?;
            jobs.push(Job {
                rate: self.rate / processes as f64,
                count: self.associations / processes + u64::from(number < self.associations % processes),
                offset_s: number as f64 / self.rate,
                hold: true,
                ..self.job(Transport::Tcp, Style::Regular, address, Encapsulation::Raw)
            });
            servers.push(server);
        }
        let title = format!("TCP, {} connections held", self.associations);
        self.announce(&title);
        let mut fleet = Fleet::start(&jobs).await?;
        let of_servers = || servers.iter().map(Server::memory).sum::<Result<u64>>();
        let (process_before, kernel_before) = (of_servers()?, Look::now()?);
        let outcome = fleet.run(&title).await?;
        tokio::time::sleep(SETTLE).await;
        let process = of_servers()?.saturating_sub(process_before);
        let kernel = Look::now()?.of_tcp(&kernel_before);
        let memory = Memory {
            process_bytes: each(process, outcome.held),
            // Both ends of each connection are in this kernel.
            kernel_bytes: each(kernel, outcome.held * 2),
        };
        fleet.end().await?;
        for server in servers {
            server.end().await?;
        }
        self.case(&jobs, &outcome, Some(memory))
    }

    async fn udp(&self) -> Result<Case> {
        let server = Server::udp().await?;
        let address = server.listening.udp.context("the echo server has no UDP port")?;
        let job = self.job(Transport::Udp, Style::Regular, address, Encapsulation::Raw);
        let case = self.simple(job).await?;
        server.end().await?;
        Ok(case)
    }

    async fn simple(&self, job: Job) -> Result<Case> {
        let title = title(&job);
        self.announce(&title);
        let jobs = [job];
        let mut fleet = Fleet::start(&jobs).await?;
        let outcome = fleet.run(&title).await?;
        fleet.release().await?;
        self.case(&jobs, &outcome, None)
    }

    async fn raw(&self) -> Result<Vec<Case>> {
        if !self.raw {
            anyhow::bail!("skipped on request");
        }
        // Reports why raw IP can't be used, more clearly than a server would.
        strandline::Stack::builder().raw(HERE)?;
        let server = Server::sctp(Some(HERE)).await?;
        let mut cases = Vec::new();
        for (transport, style) in [(Transport::Sctp, Style::Regular), (Transport::SctpMany, Style::Piggyback)]
        {
            let job = self.sctp_job(&server, transport, style)?;
            cases.push(self.simple(Job { encapsulation: Encapsulation::Raw, ..job }).await?);
        }
        server.end().await?;
        Ok(cases)
    }

    /// Measures the time between packets.
    async fn trace(&self, transport: Transport, style: Style) -> Result<Steps> {
        let server =
            if transport == Transport::Tcp { Server::tcp().await? } else { Server::sctp(None).await? };
        let job = match server.listening.tcp {
            Some(address) => self.job(transport, style, address, Encapsulation::Raw),
            None => self.sctp_job(&server, transport, style)?,
        };
        let title = format!("time between packets, {}", title(&job));
        self.announce(&title);
        let jobs = [Job { trace: true, rate: TRACED_RATE, count: TRACED, ..job }];
        let mut fleet = Fleet::start(&jobs).await?;
        let outcome = fleet.run(&title).await?;
        fleet.release().await?;
        server.end().await?;
        Ok(outcome.steps)
    }
}

/// Returns a one-line result, shown before the tables at the end.
fn in_a_line(case: &Case) -> String {
    let load = &case.load;
    let mut line = format!("{} of {} completed", load.completed, load.completed + load.failed);
    if let Some(total) = &load.total {
        line += &format!("; set-up and transaction {:.3} ms (median)", total.p50_ms);
    }
    if let Some(memory) = case.memory {
        line += &format!("; {:.0} bytes each", memory.process_bytes + memory.kernel_bytes);
    }
    line
}

fn title(job: &Job) -> String {
    let style = match job.style {
        Style::Regular => "",
        Style::Piggyback => ", piggyback",
    };
    let carrier = match job.encapsulation {
        Encapsulation::Raw if job.transport.is_sctp() => " over raw IP",
        _ => "",
    };
    let held = if job.hold { format!(", {} held", job.count) } else { String::new() };
    format!("{}{carrier}{style}{held}", job.transport)
}
