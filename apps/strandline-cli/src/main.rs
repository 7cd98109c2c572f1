//! The `strandline` program, which dispatches to its subcommands.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use mimalloc::MiMalloc;
use strandline_output::{LogWriter, errln, out};
use tracing_subscriber::EnvFilter;

/// With [`strandline_ops::heap`]'s setting the memory of a burst returns to the system. glibc keeps it as long as
/// anything above it in the heap is in use, which makes an idle association two to three times as large after
/// many were busy at once (docs/performance.md has figures of both).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// SCTP in user space, and programs built on it.
#[derive(Debug, Parser)]
#[command(
    name = "strandline",
    version = env!("STRANDLINE_VERSION"),
    arg_required_else_help = true,
    after_help = "\
Examples:
  strandline demo                      compare SCTP with TCP and UDP, in about two minutes
  strandline demo sip                  a SIP server, phones that call one another, and its live page
  strandline echo                      an echo server on TCP, UDP and SCTP
  strandline load echo                 load for that server, at a steady rate
  strandline netem exec --help         run programs on an emulated network
  strandline lab run --short --all     reproduce papers' experiments; then strandline lab report
  strandline perf server               measure throughput; on another host: strandline perf client ADDR
  strandline http serve DIR            a directory's files over TCP and SCTP streams
  strandline gateway --help            TCP connections of any program on the streams of one association
  strandline run wget http://192.0.2.7/  a program through a gateway
  strandline keygen                    a key for encrypted associations; see docs/encryption.md
  strandline sip --domain example.com  SIP registrar and proxy on 127.0.0.1:5060
  strandline completions bash          print completions for bash
Logging: -v, -vv, or RUST_LOG=strandline=debug; --log-format json for machine-readable output"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Log more; repeat for even more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Format of the log on standard error: text, or one JSON object per line
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an echo server on TCP, UDP and SCTP
    Echo(strandline_load::echo_server::Args),
    /// Measure throughput, latency and CPU cost between two hosts, over SCTP or TCP
    Perf(strandline_load::perf::Args),
    /// Generate load
    #[command(
        subcommand,
        after_help = "\
Examples:
  strandline load echo --serve                 start a server, and set up 2,500 associations per second
  strandline load associations --count 10000   up to 10,000 associations, each step timed
  strandline load http --concurrency 32 http://127.0.0.1:8080/
                                               as many requests as an HTTP server answers
  strandline load sip register --serve         start a SIP server, and register phones
  strandline load phones --steps 1000,100000   keep phones connected, and measure the cost of each"
    )]
    Load(Load),
    /// Emulate a network between two programs: delay, rate, queue, loss, several paths
    #[command(
        subcommand,
        after_help = "\
Examples:
  strandline netem exec --rtt 60ms --rate 100mbit --right 'iperf3 -s -1' --left 'iperf3 -c {right}'
  strandline netem up --background --rtt 60ms --loss 1%
  strandline netem enter left -- ping -c 3 {right}
  strandline netem down"
    )]
    Netem(strandline_lab::netem::Netem),
    /// Reproduce experiments from papers, and draw the results beside the published ones
    #[command(
        subcommand,
        after_help = "\
Examples:
  strandline lab list                          list the experiments, and which are done
  strandline lab run --short jani-kant-2005    run one paper's (as root, in minutes)
  strandline lab report                        write lab-report/index.html and the figures as PNG"
    )]
    Lab(strandline_lab::Lab),
    /// HTTP over TCP and over SCTP streams
    #[command(
        subcommand,
        after_help = "\
Examples:
  strandline http serve DIR                             the files of a directory, on TCP and on SCTP
  strandline http get http+sctp://127.0.0.1:8080/       a page, over SCTP
  strandline http get --page -d page --create-dirs http://127.0.0.1:8080/"
    )]
    Http(strandline_http::command::Http),
    /// Carry TCP connections of unmodified programs on the streams of one association between two gateways
    #[command(after_help = strandline_gateway::command::EXAMPLES)]
    Gateway(Box<strandline_gateway::command::Gateway>),
    /// Run a program whose TCP connections go through a gateway
    #[command(after_help = strandline_gateway::command::RUN_EXAMPLES)]
    Run(strandline_gateway::command::Run),
    /// Run a SIP server: registrar and proxy on UDP, TCP, TLS, WebSocket and SCTP
    Sip(strandline_sip::server::Args),
    /// Compare SCTP, TCP and UDP on this machine with the tables of a 2008 paper
    Demo(strandline_load::demo::Args),
    /// Make a key for encrypted associations, and print its fingerprint
    Keygen(strandline_keys::Keygen),
    /// Manage known hosts
    #[command(
        subcommand,
        after_help = "\
Examples:
  strandline trust add server.example SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU
  strandline trust list
  strandline trust remove server.example"
    )]
    Trust(strandline_keys::Trust),
    /// Print completions for a shell
    #[command(after_help = "\
Examples:
  strandline completions bash > /etc/bash_completion.d/strandline
  strandline completions bash > ~/.local/share/bash-completion/completions/strandline
  strandline completions zsh > /usr/local/share/zsh/site-functions/_strandline
  strandline completions fish > ~/.config/fish/completions/strandline.fish
They take effect in new shells.")]
    Completions {
        /// Shell to print completions for
        shell: Shell,
    },
}

/// The load generators.
#[derive(Debug, Subcommand)]
enum Load {
    #[command(flatten)]
    Transports(strandline_load::Load),
    /// Put an HTTP server under load, over TCP or over SCTP streams, and report as httperf does
    Http(strandline_http::load::Args),
}

fn main() -> ExitCode {
    let _left = strandline_load::end_with_parent();
    strandline_ops::heap::give_back_at_once();
    let cli = parsed();
    log(cli.verbose, cli.log_format);
    match dispatch(cli.command) {
        Ok(code) => code,
        Err(error) => {
            errln!("strandline: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Parses the command line. For `--help` or a mistake, prints the message and exits.
fn parsed() -> Cli {
    let parsed = with_negative_numbers(Cli::command()).try_get_matches();
    let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.unwrap_or_else(|told| {
        if let Err(error) = told.print()
            && !told.use_stderr()
        {
            strandline_output::end(&error);
        }
        std::process::exit(told.exit_code())
    })
}

/// Lets options take negative numbers as values, so that the error says why the value is invalid rather than
/// that no such option exists.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let takes_numbers = |argument: clap::Arg| {
        let has_value = argument.get_action().takes_values() && !argument.is_positional();
        argument.allow_negative_numbers(has_value)
    };
    command.mut_args(takes_numbers).mut_subcommands(with_negative_numbers)
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Echo(args) => strandline_load::echo_server::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Perf(args) => strandline_load::perf::run(&args),
        Command::Load(Load::Transports(load)) => load.run(),
        Command::Load(Load::Http(args)) => strandline_http::load::run(&args),
        Command::Netem(netem) => netem.run(),
        Command::Lab(lab) => lab.run(env!("STRANDLINE_COMMIT")),
        Command::Http(http) => http.run(),
        Command::Gateway(gateway) => gateway.run(),
        Command::Run(run) => run.run(),
        Command::Sip(args) => strandline_sip::server::run(&args),
        Command::Demo(args) => strandline_load::demo::run(&args),
        Command::Keygen(keygen) => keygen.run().map(|()| ExitCode::SUCCESS),
        Command::Trust(trust) => trust.run().map(|()| ExitCode::SUCCESS),
        Command::Completions { shell } => {
            // Names of commands must live as long as the program, which ends after this.
            let mut command = seen(Box::leak(Box::new(Cli::command())));
            // Generate into a buffer, because the generator panics if it can't write.
            let mut file = Vec::new();
            clap_complete::generate(shell, &mut command, "strandline", &mut file);
            out!("{}", String::from_utf8_lossy(&file));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Removes the subcommands that only other parts of this program use, so that they are not offered.
fn seen(command: &'static clap::Command) -> clap::Command {
    let options = command.get_arguments().filter(|option| !option.is_hide_set());
    let commands = command.get_subcommands().filter(|below| !below.is_hide_set());
    let mut seen =
        clap::Command::new(command.get_name()).args(options.cloned()).subcommands(commands.map(seen));
    if let Some(about) = command.get_about() {
        seen = seen.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        seen = seen.version(version);
    }
    seen
}

/// Starts logging to standard error; standard output is reserved for results.
fn log(verbose: u8, format: LogFormat) {
    let default = match verbose {
        0 => "warn,strandline_sip::refused=info,strandline_sip::reload=info",
        1 => "info,strandline=debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    strandline_output::set_log_arguments(log_arguments(verbose, format));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(LogWriter::default);
    // It would say with a panic that standard error can't be written.
    let log = log.log_internal_errors(false);
    match format {
        LogFormat::Text => log.init(),
        // One object for each event: its fields beside timestamp, level and target, and its spans, if it has any.
        LogFormat::Json => {
            log.json().flatten_event(true).with_current_span(false).with_span_list(true).init()
        }
    }
}

/// Returns the arguments by which another process of this program logs in the same way.
fn log_arguments(verbose: u8, format: LogFormat) -> Vec<String> {
    let format = match format {
        LogFormat::Text => &[][..],
        LogFormat::Json => &["--log-format", "json"],
    };
    let more = (verbose > 0).then(|| format!("-{}", "v".repeat(verbose.into())));
    more.into_iter().chain(format.iter().copied().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests;
