//! `strandline netem exec`: runs two programs on an emulated network.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use strandline_output::{err, errln, outln};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{sleep, timeout};

use super::control::Control;
use super::namespace::{Namespaces, require_root};
use super::network::{EmulatorArgs, Network};
use super::options::NetworkArgs;
use super::program::{Invocation, Output, Program};
use super::report::{ProgramReport, Report};
use super::topology::Side;
use super::units;

/// Exit code if the network deviated from its specification.
const INVALID: u8 = 120;
/// Exit code if the run exceeded its time limit, as timeout(1) returns.
const TIMED_OUT: u8 = 124;
/// Offset added to the number of a signal that ended a program.
const SIGNALLED: u8 = 128;

/// How long the left program waits for the right one to listen.
const LISTENING_MAX: Duration = Duration::from_secs(1);
const LISTENING_STEP: Duration = Duration::from_millis(10);
/// How long a program may run after SIGTERM.
const ENDING_MAX: Duration = Duration::from_secs(2);

/// Options of `strandline netem exec`.
#[derive(Debug, Clone, Args)]
#[command(
    next_help_heading = "Run",
    override_usage = "strandline netem exec [OPTIONS] --right 'SERVER' --left 'CLIENT'\n       \
                      strandline netem exec [OPTIONS] [--right 'SERVER'] -- CLIENT [ARGUMENT]...",
    after_help = "\
Addresses: {left} and {right} in the programs' arguments, $LEFT and $RIGHT in
their environment; {right.2} and $RIGHT_2 on the second path, {right6} and
$RIGHT6 with --ipv6.

Settings (of --path, --to-right, --to-left, --schedule), with commas between:
delay=30ms, rtt=60ms, jitter=2ms, rate=100mbit, queue=256k or queue=50ms,
loss=1%, loss-every=10, burst-loss=1%/4, gilbert=1%/25%, reorder=1%/5ms,
duplicate=0.1%, corrupt=0.1%, mark=30k, size-max=1400, cut, heal.

Examples:
  strandline netem exec --rtt 60ms --rate 100mbit \\
      --right 'iperf3 -s -1' --left 'iperf3 -c {right}'
  strandline netem exec --delay 20ms --loss 1% --seed 7 \\
      --right 'python3 -m http.server' -- curl -sO http://{right}:8000/x
  strandline netem exec --rtt 30ms --to-left rate=1mbit,queue=50ms -- ping {right}
  strandline netem exec --rtt 60ms --rate 100mbit --schedule '3s cut; 5s heal' \\
      --right 'strandline perf server' --left 'strandline perf client {right}'

Exit code: that of the left program if it failed, else that of the right one;
120 if both succeeded but the run is invalid; 124 after --timeout; 125 if the
network could not be created."
)]
pub struct ExecArgs {
    /// Shell command on the left; the run ends with it
    #[arg(long, value_name = "COMMAND", conflicts_with = "program")]
    left: Option<String>,
    /// Shell command on the right, which is started first
    #[arg(long, value_name = "COMMAND")]
    right: Option<String>,
    /// Program on the left with its arguments, without a shell
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
    /// Delay before the left program starts [default: until the right one listens, at most 1s]
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    start_after: Option<Duration>,
    /// Time that the right program may run after the left one ended
    #[arg(long, value_name = "TIME", value_parser = units::time, default_value = "300ms")]
    linger: Duration,
    /// Stop the run after this time
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    timeout: Option<Duration>,
    /// Print the report as JSON to standard output, and the programs' output to standard error
    #[arg(long)]
    json: bool,
    /// Write the report as JSON to a file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print only the programs' output and errors
    #[arg(short, long)]
    quiet: bool,
    /// Don't prefix the programs' output with `left |` and `right |`
    #[arg(long)]
    no_labels: bool,
    /// Name of the network for `strandline netem status` and `set`
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    emulator: EmulatorArgs,
}

/// Runs the programs.
///
/// # Errors
/// If options contradict each other, the user is not root, or something is missing.
pub fn run(args: &ExecArgs) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(execute(args)).map(ExitCode::from)
}

/// The programs of a run, and their exit codes.
#[derive(Default)]
struct Programs {
    left: Option<Program>,
    right: Option<Program>,
    left_code: Option<u8>,
    right_code: Option<u8>,
    /// The exit code if the run was interrupted from outside.
    interrupted: Option<u8>,
}

async fn execute(args: &ExecArgs) -> Result<u8> {
    let (left, right) = args.invocations()?;
    if let Some(path) = &args.report {
        // Check now that the file is writable: it is written at the end of the run.
        let file = std::fs::File::options().create(true).append(true).open(path);
        file.with_context(|| format!("writing {}", path.display()))?;
    }
    require_root()?;
    for invocation in [&left, &right].into_iter().flatten() {
        invocation.check()?;
    }
    let topology = args.network.topology()?;
    let output = args.output(left.is_some() && right.is_some());
    let mut ends = Ends::new(args.timeout, output == Output::Inherited)?;
    let name = args.name.clone().unwrap_or_else(|| format!("exec-{}", std::process::id()));
    let network = Network::start(&name, topology, &args.emulator)?;
    let control = Control::listen(network.namespaces())?;
    let stopped = async {
        tokio::select! {
            () = control.serve(&network) => SIGNALLED + 15,
            code = ends.next() => code,
        }
    };
    let mut programs = Programs::default();
    let ran = tokio::select! {
        ran = programs.run(args, &network, [&left, &right], output) => ran.map(|()| None),
        code = stopped => Ok(Some(code)),
    };
    programs.interrupted = ran?;
    programs.end(args.linger).await?;
    let report = network.finish()?;
    programs.report(args, report, [&left, &right])
}

/// Waits for the end of a program that is still running.
async fn wait(program: &mut Option<Program>) -> Result<u8> {
    match program {
        Some(program) if !program.has_ended() => program.wait().await,
        _ => std::future::pending().await,
    }
}

/// Waits a limited time until a socket listens on the right.
async fn listening(network: &Network) {
    let found = async {
        while !is_listening(network.namespaces(), Side::Right) {
            sleep(LISTENING_STEP).await;
        }
    };
    // A program that doesn't listen needs no waiting.
    let _ = timeout(LISTENING_MAX, found).await;
}

/// Returns whether a socket listens on a side.
pub(crate) fn is_listening(namespaces: &Namespaces, side: Side) -> bool {
    let files = ["tcp", "tcp6", "udp", "udp6", "raw", "raw6"];
    let any = namespaces.enter(side, || {
        let text = |file| std::fs::read_to_string(format!("/proc/thread-self/net/{file}"));
        Ok(files.into_iter().any(|file| text(file).is_ok_and(|text| listens(&text))))
    });
    // If the tables can't be read, don't wait.
    any.unwrap_or(true)
}

/// Returns whether a kernel table has a listening socket (state 0A, TCP) or an open one (07, others).
fn listens(table: &str) -> bool {
    let states = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3));
    states.into_iter().any(|state| state == "0A" || state == "07")
}

impl Programs {
    /// Starts the programs and waits for the end of the run: the end of the left program, or of the only one,
    /// or a failure of the right one, whose client would wait in vain.
    async fn run(
        &mut self,
        args: &ExecArgs,
        network: &Network,
        [left, right]: [&Option<Invocation>; 2],
        output: Output,
    ) -> Result<()> {
        let start = |side, what: &Option<Invocation>| {
            what.as_ref().map(|what| Program::start(network, side, what, output)).transpose()
        };
        self.right = start(Side::Right, right)?;
        if self.right.is_some() && left.is_some() {
            match args.start_after {
                Some(time) => sleep(time).await,
                None => listening(network).await,
            }
        }
        network.begin();
        self.left = start(Side::Left, left)?;
        loop {
            tokio::select! {
                code = wait(&mut self.left) => {
                    self.left_code = Some(code?);
                    return Ok(());
                }
                code = wait(&mut self.right) => {
                    let code = code?;
                    self.right_code = Some(code);
                    if code != 0 || self.left.is_none() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Ends programs that are still running.
    async fn end(&mut self, linger: Duration) -> Result<()> {
        if self.interrupted.is_none()
            && self.left_code.is_some()
            && let Ok(code) = timeout(linger, wait(&mut self.right)).await
        {
            self.right_code = Some(code?);
        }
        for program in [&mut self.left, &mut self.right].into_iter().flatten() {
            if program.has_ended() {
                continue;
            }
            program.terminate();
            if timeout(ENDING_MAX, program.wait()).await.is_err() {
                program.kill();
                program.wait().await?;
            }
        }
        for program in [self.left.take(), self.right.take()].into_iter().flatten() {
            // Its child processes may still hold its output open.
            let _ = timeout(ENDING_MAX, program.printed()).await;
        }
        Ok(())
    }

    fn report(
        &self,
        args: &ExecArgs,
        mut report: Report,
        [left, right]: [&Option<Invocation>; 2],
    ) -> Result<u8> {
        let codes = [(Side::Left, left, self.left_code), (Side::Right, right, self.right_code)];
        for (side, what, exit_code) in codes {
            if let Some(what) = what {
                let (command, ended_by_us) = (what.shown(), exit_code.is_none());
                report.programs.push(ProgramReport { side, command, exit_code, ended_by_us });
            }
        }
        if args.json {
            outln!("{}", serde_json::to_string_pretty(&report)?);
        } else if !args.quiet {
            err!("{report}");
        } else {
            for reason in &report.invalid_because {
                errln!("netem: INVALID: {reason}");
            }
        }
        if let Some(path) = &args.report {
            let text = serde_json::to_string_pretty(&report)?;
            std::fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))?;
        }
        let failed = |code: Option<u8>| code.filter(|&code| code != 0);
        let code = self.interrupted.or(failed(self.left_code)).or(failed(self.right_code));
        Ok(code.unwrap_or(if report.valid { 0 } else { INVALID }))
    }
}

impl ExecArgs {
    fn invocations(&self) -> Result<(Option<Invocation>, Option<Invocation>)> {
        let shell = |text: &String| Invocation::Shell(text.clone());
        let direct = (!self.program.is_empty()).then(|| Invocation::Direct(self.program.clone()));
        let left = self.left.as_ref().map(shell).or(direct);
        let right = self.right.as_ref().map(shell);
        if left.is_none() && right.is_none() {
            bail!("nothing to run: specify --left 'COMMAND', --right 'COMMAND' or -- PROGRAM (see --help)");
        }
        Ok((left, right))
    }

    fn output(&self, two: bool) -> Output {
        match () {
            () if self.json => Output::LabelledToStderr,
            () if self.no_labels || !two => Output::Inherited,
            () => Output::Labelled,
        }
    }
}

/// Events from outside that end a run: signals and the time limit.
struct Ends {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    timeout: Option<Duration>,
    /// The terminal sends its signals to the programs as well, and their reaction decides how the run ends.
    terminal: bool,
}

impl Ends {
    fn new(timeout: Option<Duration>, inherited: bool) -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            timeout,
            terminal: inherited && std::io::stdin().is_terminal(),
        })
    }

    /// Waits for the next event and returns its exit code.
    async fn next(&mut self) -> u8 {
        let over = async {
            match self.timeout {
                Some(time) => sleep(time).await,
                None => std::future::pending().await,
            }
        };
        let interrupted = async {
            self.interrupt.recv().await;
            while self.terminal {
                self.interrupt.recv().await;
            }
        };
        tokio::select! {
            () = interrupted => SIGNALLED + 2,
            _ = self.terminate.recv() => SIGNALLED + 15,
            _ = self.hangup.recv() => SIGNALLED + 1,
            () = over => TIMED_OUT,
        }
    }
}

#[cfg(test)]
mod tests;
