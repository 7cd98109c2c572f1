//! Executes one run: its network, its programs and their reports.

use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::extract::{self, Printed};
use crate::netem::exec::is_listening;
use crate::netem::program::{Invocation, search_path};
use crate::netem::topology::Side;
use crate::network::{Joined, NetworkKind};
use crate::plan::{Run, Series};

/// How long the client waits for the server to listen.
const LISTENING_MAX: Duration = Duration::from_secs(5);
const LISTENING_STEP: Duration = Duration::from_millis(10);
/// How long the server has to end after the client.
const SERVER_ENDS_MAX: Duration = Duration::from_secs(15);
/// How long a program may run after SIGTERM.
const ENDING_MAX: Duration = Duration::from_secs(3);

/// The outcome of a run.
#[derive(Debug)]
pub struct Taken {
    /// The programs' reports, or why there are none.
    pub printed: Result<Printed>,
    /// Reasons why the network deviated from its specification.
    pub invalid_because: Vec<String>,
}

/// Executes a run until its reports are complete or it is interrupted. On return its network and processes are
/// gone.
///
/// # Errors
/// If the network can't be created: then no run will succeed.
pub async fn take(
    name: &str,
    series: &Series,
    run: &Run,
    interrupt: &mut watch::Receiver<bool>,
) -> Result<Taken> {
    let network = Joined::start(name, &run.network, run.seed)?;
    let mut programs = Programs::default();
    let ran = tokio::select! {
        ran = programs.run(&network, series, run) => ran,
        _ = interrupt.wait_for(|ended| *ended) => Err(anyhow!("interrupted")),
    };
    programs.end().await;
    let report = network.finish()?;
    let invalid_because = report.as_ref().map(|report| report.invalid_because.clone()).unwrap_or_default();
    let netem = report.map(serde_json::to_value).transpose()?;
    let printed = ran.map(|(client, server)| Printed { client, server, netem });
    Ok(Taken { printed, invalid_because })
}

/// Returns the programs that a run needs: those of the plan and those used to create and measure it. Checked
/// before the first run.
#[must_use]
pub fn programs(run: &Run) -> Vec<Invocation> {
    let commands = || [Some(&run.client), run.server.as_ref()].into_iter().flatten();
    let mut all: Vec<Vec<String>> = commands().map(|command| words(command)).collect();
    let network = &run.network;
    let own = [
        ("setpriv", true),
        ("ip", !network.kind.is_alone()),
        ("taskset", network.cores.is_some()),
        ("ethtool", network.kind == NetworkKind::Veth || network.loss_every.is_some()),
        ("iptables", network.loss_every.is_some()),
        ("valgrind", commands().any(|command| command.starts_with("strandline lab instructions "))),
    ];
    all.extend(own.iter().filter(|(_, needed)| *needed).map(|(name, _)| vec![(*name).to_owned()]));
    all.into_iter().filter(|words| !words.is_empty()).map(Invocation::Direct).collect()
}

/// Splits a command into words; `strandline` means this program.
fn words(command: &str) -> Vec<String> {
    let mut words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    for word in &mut words {
        if word == "strandline"
            && let Ok(path) = std::env::current_exe()
        {
            *word = path.to_string_lossy().into_owned();
        }
    }
    words
}

#[derive(Default)]
struct Programs {
    client: Option<Program>,
    server: Option<Program>,
}

/// A process in its own process group.
struct Program {
    child: Option<Child>,
    group: Option<Pid>,
}

type Reports = (serde_json::Value, Option<serde_json::Value>);

impl Programs {
    async fn run(&mut self, network: &Joined, series: &Series, run: &Run) -> Result<Reports> {
        if let Some(command) = &run.server {
            let server = self.server.insert(Program::start(network, run, Side::Right, command)?);
            server.wait_until_it_listens(network).await.with_context(|| format!("server ({command})"))?;
        }
        network.begin();
        let client = self.client.insert(Program::start(network, run, Side::Left, &run.client)?);
        let limit = Duration::from_secs_f64(run.timeout);
        let told = || format!("client ({})", run.client);
        let output = client.output(limit).await.with_context(told)?;
        let client = report_of(&output).with_context(told)?;
        let Some((server, command)) = self.server.as_mut().zip(run.server.as_ref()) else {
            return Ok((client, None));
        };
        if series.server_stays {
            return Ok((client, None));
        }
        let told = || format!("server ({command})");
        let output = server.output(SERVER_ENDS_MAX).await.with_context(told)?;
        if !output.status.success() {
            report_of(&output).with_context(told)?;
        }
        // A server's output is optional unless an expression uses it.
        Ok((client, extract::parse(&String::from_utf8_lossy(&output.stdout)).ok()))
    }

    /// Ends programs that are still running.
    async fn end(&mut self) {
        for program in [&mut self.client, &mut self.server].into_iter().flatten() {
            program.end().await;
        }
    }
}

impl Program {
    fn start(network: &Joined, run: &Run, side: Side, command: &str) -> Result<Self> {
        // If this process is killed, the kernel kills the program.
        let mut all: Vec<String> = ["setpriv", "--pdeathsig", "KILL"].map(str::to_owned).to_vec();
        if let Some(namespaces) = network.namespaces() {
            all.extend(["ip", "netns", "exec"].map(str::to_owned));
            all.push(namespaces.namespace(network.place(side)));
        }
        if let Some(cores) = run.network.cores(side) {
            all.extend(["taskset", "-c", cores].map(str::to_owned));
        }
        all.extend(words(command));
        let (program, arguments) = all.split_first().context("the command is empty")?;
        let child = Command::new(program)
            .args(arguments)
            .env("PATH", search_path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {command}"))?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Ok(Self { child: Some(child), group })
    }

    async fn wait_until_it_listens(&mut self, network: &Joined) -> Result<()> {
        let Some((namespaces, child)) = network.namespaces().zip(self.child.as_mut()) else { return Ok(()) };
        let listens = async {
            while !is_listening(namespaces, network.place(Side::Right)) {
                sleep(LISTENING_STEP).await;
            }
        };
        tokio::select! {
            // A program that doesn't listen in time needs no waiting.
            _ = timeout(LISTENING_MAX, listens) => Ok(()),
            ended = child.wait() => {
                let status = ended?;
                let output = self.output(ENDING_MAX).await?;
                Err(anyhow!("it exited ({status}) before the client started: {}", complaint(&output.stderr)))
            }
        }
    }

    /// Waits for the program's end and returns its output.
    async fn output(&mut self, limit: Duration) -> Result<Output> {
        let child = self.child.as_mut().context("it has exited already")?;
        let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
        let all = async {
            let (stdout, stderr) = tokio::join!(read(&mut stdout), read(&mut stderr));
            let status = child.wait().await?;
            anyhow::Ok(Output { status, stdout, stderr })
        };
        match timeout(limit, all).await {
            Ok(output) => {
                self.child = None;
                output
            }
            Err(_) => bail!("it did not exit within {:.0} s", limit.as_secs_f64()),
        }
    }

    async fn end(&mut self) {
        let Some(child) = self.child.as_mut() else { return };
        for signal in [Signal::TERM, Signal::KILL] {
            if let Some(group) = self.group {
                // It may have ended meanwhile.
                let _ = kill_process_group(group, signal);
            }
            if timeout(ENDING_MAX, child.wait()).await.is_ok() {
                return;
            }
        }
    }
}

async fn read(from: &mut Option<impl tokio::io::AsyncRead + Unpin>) -> Vec<u8> {
    use tokio::io::AsyncReadExt;
    let mut bytes = Vec::new();
    if let Some(from) = from {
        // Use what was read until then.
        let _ = from.read_to_end(&mut bytes).await;
    }
    bytes
}

/// Returns the JSON report of a successful program.
fn report_of(output: &Output) -> Result<serde_json::Value> {
    let parsed = extract::parse(&String::from_utf8_lossy(&output.stdout));
    if !output.status.success() && !parsed.as_ref().is_ok_and(did_some) {
        // Programs that print JSON report their error there.
        let error = parsed.ok().and_then(|report| Some(report.get("error")?.as_str()?.to_owned()));
        bail!("{}: {}", output.status, error.unwrap_or_else(|| complaint(&output.stderr)));
    }
    parsed.map_err(|wrong| anyhow!(wrong))
}

/// Returns whether a program did its work or part of it, and reports failures: then its numbers are recorded, and
/// the plan's `failed-max` decides whether the run is valid.
fn did_some(report: &serde_json::Value) -> bool {
    let count = |key| report.get(key).and_then(serde_json::Value::as_u64);
    let is_part = count("completed") > Some(0) && count("failed") > Some(0);
    is_part || count("replies").is_some() && count("errors_total") > Some(0)
}

/// Returns a program's message about its failure: its error line, or its last line.
fn complaint(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = text.lines().find(|line| line.to_ascii_lowercase().starts_with("error"));
    first.or_else(|| lines.next_back()).unwrap_or("no output").trim().to_owned()
}
