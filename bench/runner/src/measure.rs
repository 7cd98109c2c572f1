//! One measurement: a receiver, a sender, and their reports.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::network::{self, Network, Side};
use crate::plan::{Link, Metric, Row, Subject, fill};
use crate::programs::{self, Program};
use crate::reports::{self, Metrics};
use crate::share::Share;

/// Time limit for programs to end and to report.
const GRACE: Duration = Duration::from_secs(30);
const READY_MAX: Duration = Duration::from_secs(10);
const READY_POLL: Duration = Duration::from_millis(20);
/// Delay before the background load begins, so that it doesn't hinder the set-up. The first second of such a
/// measurement doesn't count (`--omit 1` in bench/rows.toml), and the load runs for longer.
const BESIDE_AFTER: Duration = Duration::from_millis(500);
const BESIDE_SECONDS: f64 = 2.0;
/// Pause between measurements, since sockets of the last one may still be closing.
const PAUSE: Duration = Duration::from_millis(100);

/// Options of every measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    pub(crate) seconds: f64,
    /// Whether both sides run with realtime priority on their cores.
    pub(crate) realtime: bool,
}

/// The outcome of one measurement.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) metrics: Metrics,
    pub(crate) sender: Value,
    pub(crate) receiver: Option<Value>,
    pub(crate) beside: Option<Value>,
    pub(crate) link: Link,
}

/// Runs one measurement. No program that took part is left when it has ended, whatever the outcome.
pub(crate) async fn measure(
    network: &mut Network,
    row: &Row,
    subject: &Subject,
    options: Options,
) -> Result<Outcome> {
    let share = row.share.map(Share::new).transpose()?;
    let outcome = take_part(network, row, subject, options, share.as_ref()).await;
    // The child process is the parent of the measured program. Killing only the child would leave a server
    // behind, which the next subject would use.
    network.end_programs()?;
    sleep(PAUSE).await;
    outcome
}

async fn take_part(
    network: &mut Network,
    row: &Row,
    subject: &Subject,
    options: Options,
    share: Option<&Share>,
) -> Result<Outcome> {
    let link = subject.link.unwrap_or(row.link);
    network.set_link(link)?;
    let scratch = programs::scratch()?;
    let mut test = Test { network, row, subject, options, link, share, scratch, server: String::new() };
    let [sender_core, receiver_core] = subject.cores.as_ref().unwrap_or(&row.cores);
    let mut receiver = None;
    if let Some(command) = &subject.receiver {
        if let Some(what) = &subject.ready {
            ensure!(network.listened_on(what)?.0 == 0, "something listens on {what} already");
        }
        let mut child = test.start(Side::Receiver, receiver_core, command)?;
        test.wait_until_ready(&mut child).await?;
        test.server = child.id().map(|id| id.to_string()).unwrap_or_default();
        receiver = Some(child);
    }
    let sender = test.start(Side::Sender, sender_core, &subject.sender)?;
    let beside = match &subject.beside {
        Some(command) => {
            sleep(BESIDE_AFTER).await;
            Some(test.start(Side::Sender, sender_core, command)?)
        }
        None => None,
    };
    let sender = async { finish(sender, test.timeout()).await.context("the sender") };
    let (sender, receiver) = match receiver {
        // Both at once: a report that is longer than a pipe holds must be read for the receiver to go on.
        Some(child) if subject.ends => {
            let limit = test.timeout() + GRACE;
            let receiver = async { finish(child, limit).await.context("the receiver") };
            let (sender, receiver) = tokio::try_join!(sender, receiver)?;
            (sender, Some(receiver))
        }
        _running => (sender.await?, None),
    };
    let beside = match beside {
        Some(child) => Some(finish(child, GRACE).await.context("what runs beside")?),
        None => None,
    };
    let size = row.values.get("size").and_then(Value::as_f64);
    let mut metrics = reports::read(subject, &sender, receiver.as_ref(), size)?;
    if let Some(report) = &beside {
        metrics.insert(Metric::Beside, reports::number(report, "/rate").context("what runs beside")?);
    }
    Ok(Outcome { metrics, sender, receiver, beside, link })
}

struct Test<'a> {
    network: &'a Network,
    row: &'a Row,
    subject: &'a Subject,
    options: Options,
    link: Link,
    /// The control group that the receiver runs in.
    share: Option<&'a Share>,
    /// Folder for the files of this measurement.
    scratch: String,
    /// The receiver's process.
    server: String,
}

impl Test<'_> {
    fn seconds(&self) -> f64 {
        self.row.seconds.unwrap_or(self.options.seconds)
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.seconds() + self.row.grace)
    }

    /// Starts a command line in a namespace, on a core. It ends when the child is dropped, and at the latest
    /// by `timeout`.
    fn start(&self, side: Side, core: &str, command: &str) -> Result<Child> {
        let seconds = self.seconds();
        let whole = format!("{:.0}", seconds.max(1.0));
        let beside = format!("{}", seconds + BESIDE_SECONDS);
        let (seconds, root) = (format!("{seconds}"), programs::root()?);
        let tls = if command.contains("{tls}") { programs::certificates()? } else { root.clone() };
        let site = if command.contains("{site}") { programs::site()? } else { root.clone() };
        let more = [
            ("to", network::receiver(self.link)),
            ("seconds", &seconds),
            ("whole-seconds", &whole),
            ("beside-seconds", &beside),
            ("server", &self.server),
            ("root", root.to_str().context("a path that is no text")?),
            ("scratch", &self.scratch),
            ("tls", tls.to_str().context("a path that is no text")?),
            ("site", site.to_str().context("a path that is no text")?),
        ];
        let words = fill(command, &self.row.values, &more)?;
        let (program, arguments) = words.split_first().context("an empty command")?;
        let path = Program::named(program)?.path()?;
        let prefix = self.share.filter(|_| side == Side::Receiver).map(Share::prefix);
        let priority = priority(self.options.realtime, prefix.is_some());
        let limit = format!("{:.0}", (self.timeout() + GRACE).as_secs_f64());
        // Runs outside of the namespace, where control groups aren't visible.
        let mut words_before = prefix.iter().flatten().map(String::as_str).chain(["ip"]);
        Command::new(words_before.next().unwrap_or("ip"))
            .args(words_before)
            .args(["netns", "exec", self.network.namespace(side, self.link)])
            .args(["timeout", "--signal=KILL", &limit])
            // A killed process can't end its children, so they are killed with it.
            .args(["setpriv", "--pdeathsig", "KILL"])
            .args(priority)
            .args(["taskset", "-c", core])
            .arg(path)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {command}"))
    }

    async fn wait_until_ready(&self, child: &mut Child) -> Result<()> {
        let Some(what) = &self.subject.ready else { return Ok(()) };
        let give_up = Instant::now() + READY_MAX;
        while self.network.listened_on(what).map(|(listened, all)| listened < all)? {
            if let Some(status) = child.try_wait()? {
                let mut errors = String::new();
                if let Some(mut stderr) = child.stderr.take() {
                    stderr.read_to_string(&mut errors).await?;
                }
                bail!("the receiver ended ({status}) before it listened on {what}: {}", last_line(&errors));
            }
            ensure!(Instant::now() < give_up, "the receiver doesn't listen on {what}");
            sleep(READY_POLL).await;
        }
        Ok(())
    }
}

/// Waits for the end of a program; returns the JSON that it printed.
async fn finish(child: Child, limit: Duration) -> Result<Value> {
    let output = timeout(limit, child.wait_with_output()).await;
    let output = output.context("it took too long and was ended")??;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}", output.status, last_line(&errors));
    }
    parse(&text)
}

/// Returns the last line of what a program printed.
fn last_line(errors: &str) -> &str {
    errors.trim_end().lines().last().unwrap_or("no message")
}

/// Parses one document, or the last line if there are several.
fn parse(text: &str) -> Result<Value> {
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).context("it reported nothing")?;
    serde_json::from_str(last).with_context(|| format!("its report is no JSON: {last:.80}"))
}

/// Returns the command that gives a program its priority. A quota of processor time doesn't bind programs with
/// realtime priority, and a kernel with group scheduling of realtime programs refuses them in such a group.
fn priority(realtime: bool, has_quota: bool) -> &'static [&'static str] {
    if realtime && !has_quota { &["chrt", "-r", "10"] } else { &["nice", "-n", "-20"] }
}

#[cfg(test)]
mod tests;
