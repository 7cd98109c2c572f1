//! Networks that stay up: `strandline netem up`, and the commands that inspect, change and end them.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;
use strandline_output::{err, out, outln};
use tokio::signal::unix::{SignalKind, signal};

use super::control::{Control, Request, choose, query};
use super::namespace::{WaitForEnd, namespace_name, networks, require_root};
use super::network::{EmulatorArgs, Network};
use super::options::NetworkArgs;
use super::report::Report;
use super::schedule::TargetedChange;
use super::topology::Side;

/// How long a network may take to start in the background.
const UP_MAX: Duration = Duration::from_secs(10);

/// Options of `strandline netem up`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  strandline netem up --rtt 60ms --rate 100mbit &
  strandline netem enter right -- iperf3 -s          (another terminal)
  strandline netem enter left -- iperf3 -c {right}   (another terminal)
  strandline netem set to-right loss=1%
  strandline netem cut; strandline netem heal
  strandline netem down")]
pub struct UpArgs {
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    emulator: EmulatorArgs,
    /// Name of the network
    #[arg(long, default_value = "net")]
    name: String,
    /// Return when the network is up, and keep it running in the background
    #[arg(short, long)]
    background: bool,
}

/// Selects a network.
#[derive(Debug, Clone, Args)]
pub struct NameArgs {
    /// Name of the network [default: the only one that is up]
    #[arg(long)]
    name: Option<String>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Options of `strandline netem cut` and `heal`.
#[derive(Debug, Clone, Args)]
pub struct CutArgs {
    #[command(flatten)]
    name: NameArgs,
    /// Links: path=N, to-right, to-left [default: all]
    links: Vec<String>,
}

/// Options of `strandline netem set`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  strandline netem set delay=50ms                        both directions of all paths
  strandline netem set to-right loss=1%,rate=10mbit      one direction
  strandline netem set path=2 to-left delay=80ms         one direction of one path
Settings are those of strandline netem exec --help.")]
pub struct SetArgs {
    #[command(flatten)]
    name: NameArgs,
    /// Settings such as delay=50ms,loss=1%, after path=N, to-right or to-left to change only some links
    #[arg(required = true)]
    settings: Vec<String>,
}

/// A side, as a command-line argument.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum SideArg {
    Left,
    Right,
}

/// Options of `strandline netem enter`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  strandline netem enter right -- iperf3 -s &
  strandline netem enter left -- iperf3 -c {right}
  strandline netem enter left                            a shell")]
pub struct EnterArgs {
    /// Side to enter
    side: SideArg,
    /// Name of the network [default: the only one that is up]
    #[arg(long)]
    name: Option<String>,
    /// Program with its arguments, in which {left} and {right} are replaced by addresses [default: $SHELL]
    #[arg(last = true)]
    program: Vec<String>,
}

/// Creates a network and keeps it up.
///
/// # Errors
/// If the network can't be created.
pub fn up(args: &UpArgs) -> Result<ExitCode> {
    let topology = args.network.topology()?;
    require_root()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        if args.background {
            return in_background(&args.name).await;
        }
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let network = Network::start(&args.name, topology, &args.emulator)?;
        let control = Control::listen(network.namespaces())?;
        network.begin();
        err!("{}", how_to_use(&network));
        tokio::select! {
            () = control.serve(&network) => {}
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
        err!("{}", network.finish()?);
        Ok(ExitCode::SUCCESS)
    })
}

/// Starts the same command without --background, detached from this terminal, and waits until it answers.
async fn in_background(name: &str) -> Result<ExitCode> {
    if networks()?.iter().any(|(other, lives)| other == name && *lives) {
        bail!(
            "a network '{name}' exists already: choose another --name, or remove it with 'strandline netem down'"
        );
    }
    // A file rather than a pipe: nothing reads a pipe after this process has ended.
    let said = std::env::temp_dir().join(format!("strandline-netem-{}", std::process::id()));
    let mut child = background_command(std::fs::File::create(&said)?)?;
    let answers = async {
        while query(name, &Request::Status).is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ready = tokio::select! {
        () = answers => true,
        _ = child.wait() => false,
        () = tokio::time::sleep(UP_MAX) => false,
    };
    let text = std::fs::read_to_string(&said).unwrap_or_default();
    let _ = std::fs::remove_file(&said);
    if ready {
        err!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let _ = child.kill().await;
    bail!("{}", text.trim().trim_start_matches("strandline netem: "));
}

fn background_command(output: std::fs::File) -> Result<tokio::process::Child> {
    let arguments = std::env::args_os().skip(1).filter(|word| word != "--background" && word != "-b");
    tokio::process::Command::new("setsid")
        .arg(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output)
        .spawn()
        .map_err(|error| anyhow!("{error}: {}", super::command::missing("setsid")))
}

fn how_to_use(network: &Network) -> String {
    let list = |side| {
        let addresses: Vec<String> =
            network.topology().addresses(side).map(|address| address.to_string()).collect();
        addresses.join(", ")
    };
    let name = network.namespaces().name();
    format!(
        "netem: '{name}' is up: left {}, right {}\n\
         netem: run programs with 'strandline netem enter left -- PROGRAM' or 'ip netns exec {} PROGRAM'\n\
         netem: remove it with 'strandline netem down --name {name}'\n",
        list(Side::Left),
        list(Side::Right),
        namespace_name(name, Side::Left),
    )
}

/// Prints the report of a network; without a name, of all networks.
///
/// # Errors
/// If the network doesn't answer.
pub fn status(args: &NameArgs) -> Result<ExitCode> {
    let named = args.name.as_ref().map(|name| vec![(name.clone(), true)]);
    let all = match named {
        Some(named) => named,
        None => networks()?,
    };
    if all.is_empty() && !args.json {
        outln!("no network is up");
    }
    let mut reports = serde_json::Map::new();
    for (name, lives) in all {
        if !lives {
            if !args.json {
                outln!("{name}: its owner was killed; the next network removes it");
            }
            continue;
        }
        let report = query(&name, &Request::Status)?;
        if !args.json {
            outln!("{name}: left {}, right {}", words(&report["left"]), words(&report["right"]));
            out!("{}", read(&report)?);
        }
        reports.insert(name, report);
    }
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&reports)?);
    }
    Ok(ExitCode::SUCCESS)
}

fn words(list: &Value) -> String {
    let words = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    words.collect::<Vec<_>>().join(", ")
}

fn read(report: &Value) -> Result<Report> {
    serde_json::from_value(report.clone())
        .context("parsing the status (written by another version of this program?)")
}

/// Cuts links, or heals them.
///
/// # Errors
/// If there is no such network or link.
pub fn cut_or_heal(args: &CutArgs, word: &str) -> Result<ExitCode> {
    change(&args.name, &args.links, word)
}

/// Changes the settings of links.
///
/// # Errors
/// If there is no such network or link, or settings are invalid.
pub fn set(args: &SetArgs) -> Result<ExitCode> {
    change(&args.name, &args.settings, "")
}

fn change(name: &NameArgs, words: &[String], more: &str) -> Result<ExitCode> {
    let text = format!("{} {more}", words.join(" "));
    text.parse::<TargetedChange>().map_err(|error| anyhow!(error))?;
    finish(name, &Request::Change(text.trim().to_owned()), false)
}

/// Ends a network.
///
/// # Errors
/// If there is no such network.
pub fn down(args: &NameArgs) -> Result<ExitCode> {
    let name = choose(args.name.as_deref())?;
    let gone = WaitForEnd::of(&name);
    let args = NameArgs { name: Some(name), json: args.json };
    let code = finish(&args, &Request::Down, true)?;
    gone.wait()?;
    Ok(code)
}

fn finish(args: &NameArgs, request: &Request, show: bool) -> Result<ExitCode> {
    let report = query(&choose(args.name.as_deref())?, request)?;
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else if show {
        out!("{}", read(&report)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// Replaces this process by a program on a side of a network.
///
/// # Errors
/// If there is no such network or program, or the user is not root.
pub fn enter(args: &EnterArgs) -> Result<ExitCode> {
    require_root()?;
    let name = choose(args.name.as_deref())?;
    let report = query(&name, &Request::Status)?;
    let side = match args.side {
        SideArg::Left => Side::Left,
        SideArg::Right => Side::Right,
    };
    let replacements: Vec<(String, String, String)> = serde_json::from_value(report["substitutions"].clone())
        .context("the status lacks the network's addresses")?;
    let mut program = args.program.clone();
    if program.is_empty() {
        program.push(std::env::var("SHELL").unwrap_or_else(|_| "sh".to_owned()));
    }
    let namespace = namespace_name(&name, side);
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", &namespace])
        .env("SIDE", side.name())
        .env("PATH", super::program::search_path());
    for word in program {
        let substitute = |word: String, (placeholder, _, address): &(String, String, String)| {
            word.replace(placeholder.as_str(), address)
        };
        command.arg(replacements.iter().fold(word, substitute));
    }
    for (_, variable, address) in &replacements {
        command.env(variable, address);
    }
    Err(anyhow!(command.exec()).context(super::command::missing("ip")))
}
