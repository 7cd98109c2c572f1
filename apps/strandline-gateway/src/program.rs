//! `strandline run`: one program, unmodified, whose TCP connections go through a gateway.

mod executable;

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use strandline_output::errln;

/// Examples for the help of the command.
pub const EXAMPLES: &str = "\
Examples:
  strandline gateway --peer far=127.0.0.1:9899 --preload 9897
                                               a gateway that serves programs, beside others of its listeners
  strandline run wget http://192.0.2.7/        a program by the gateway at 127.0.0.1:9897
  strandline run --gateway 127.0.0.1:9000 --direct 10.0.0.0/8 -- psql -h db.example
                                               by another one, but directly to one network
  strandline run bash                          a shell: everything that is started from it
More: docs/gateway.md";

/// The variable that the library reads, in crates/strandline-preload.
const SETTINGS: &str = "STRANDLINE_GATEWAY";
/// The variable that says where the library is.
const LIBRARY: &str = "STRANDLINE_PRELOAD_LIBRARY";
const LIBRARY_NAME: &str = "libstrandline_preload.so";
/// Time for the gateway to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Exit codes as those of a shell, for a program that is not there, or that can't be run.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;

/// Runs a program.
#[derive(Debug, clap::Args)]
pub struct Run {
    /// The gateway's --preload (at 127.0.0.1 if only a port is given)
    #[arg(long, value_name = "[ADDRESS:]PORT", default_value = "9897", value_parser = address)]
    gateway: SocketAddr,
    /// Connect directly to the addresses of this network; may be repeated, up to 64 times
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    direct: Vec<String>,
    /// Send connections to this host's loopback addresses through the gateway, too
    #[arg(long)]
    loopback: bool,
    /// What connections do while the gateway does not listen: go directly, or fail
    #[arg(long, value_enum, value_name = "WAY", default_value = "direct")]
    fallback: Fallback,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// What connections do while the gateway does not listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Fallback {
    Direct,
    None,
}

impl Run {
    /// Becomes the program. Returns only if that fails.
    ///
    /// # Errors
    /// If the library is missing, or the program is one that would not use it.
    pub fn run(&self) -> Result<ExitCode> {
        let Some((program, arguments)) = self.program.split_first() else { return Ok(ExitCode::FAILURE) };
        ensure!(self.direct.len() <= 64, "--direct may be given 64 times");
        let library = library()?;
        let Some(path) = find(program) else {
            errln!("strandline: {}: not found", program.display());
            return Ok(ExitCode::from(NOT_FOUND));
        };
        executable::check(&path)?;
        self.check_gateway()?;
        let mut preload = library.into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        let mut command = Command::new(&path);
        command.arg0(program).args(arguments).env("LD_PRELOAD", preload).env(SETTINGS, self.settings()?);
        let error = command.exec();
        errln!("strandline: {}: {error}", program.display());
        Ok(ExitCode::from(NOT_RUN))
    }

    /// Returns what the library is told.
    ///
    /// # Errors
    /// If the system has no random numbers.
    fn settings(&self) -> Result<String> {
        let mut settings = self.gateway.to_string();
        if self.loopback {
            settings.push_str(",loopback");
        }
        if self.fallback == Fallback::None {
            settings.push_str(",fallback=none");
        }
        for network in &self.direct {
            settings.push_str(",direct=");
            settings.push_str(network);
        }
        let secret = secret().context("reading a random number")?;
        settings.push_str(&format!(",secret={secret:x}"));
        Ok(settings)
    }

    /// Asks whether the gateway is there, so that a mistake is found before the program runs.
    fn check_gateway(&self) -> Result<()> {
        let is_one = match is_gateway(self.gateway) {
            Ok(is_one) => is_one,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                match self.fallback {
                    Fallback::Direct => errln!(
                        "strandline: no gateway at {}: connections are direct until there is one",
                        self.gateway
                    ),
                    Fallback::None => errln!("strandline: no gateway at {}", self.gateway),
                }
                return Ok(());
            }
            Err(error) => {
                return Err(error).with_context(|| format!("asking the gateway at {}", self.gateway));
            }
        };
        ensure!(
            is_one,
            "{} is not the --preload of a gateway: what listens there is something else",
            self.gateway
        );
        Ok(())
    }
}

/// Returns the secret of the programs, by which other users can't ask for their connections: of a command
/// within another one the same, since sockets are inherited.
fn secret() -> io::Result<u64> {
    let outer = std::env::var(SETTINGS).unwrap_or_default();
    let known = outer.split(',').find_map(|word| word.strip_prefix("secret="));
    if let Some(known) = known.and_then(|known| u64::from_str_radix(known, 16).ok()) {
        return Ok(known);
    }
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

/// Asks a gateway about the socket 0, which there never is, and returns whether it answers as one.
fn is_gateway(gateway: SocketAddr) -> io::Result<bool> {
    let mut tcp = TcpStream::connect_timeout(&gateway, PATIENCE)?;
    tcp.set_read_timeout(Some(PATIENCE))?;
    let mut question = [0; 36];
    if let Some(head) = question.first_chunk_mut() {
        *head = *b"SLp1\x02\x04";
    }
    tcp.write_all(&question)?;
    let mut answer = [0; 32];
    let answered = tcp.read_exact(&mut answer);
    Ok(answered.is_ok() && answer.starts_with(b"SLp1"))
}

fn address(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::new([127, 0, 0, 1].into(), port)),
        Err(_) => strandline::socket_address(text).map_err(|error| error.to_string()),
    }
}

/// Checks a network, and returns it with its length.
fn network(text: &str) -> Result<String, String> {
    let (ip, len) = text.split_once('/').map_or((text, None), |(ip, len)| (ip, Some(len)));
    let wants = || format!("`{text}` is not a network, such as 10.0.0.0/8, or an address");
    let ip: IpAddr = ip.parse().map_err(|_| wants())?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let len = len.map_or(Ok(most), str::parse::<u8>).map_err(|_| wants())?;
    if len > most { Err(wants()) } else { Ok(format!("{ip}/{len}")) }
}

/// Finds the library that is loaded into the program.
fn library() -> Result<PathBuf> {
    let found = match std::env::var_os(LIBRARY) {
        Some(path) => {
            let path = PathBuf::from(path);
            ensure!(path.is_file(), "{}, which {LIBRARY} says, is not a file", path.display());
            std::path::absolute(path)?
        }
        None => {
            let own = std::env::current_exe().context("finding this program's own folder")?;
            let folder = own.parent().unwrap_or(Path::new("/"));
            let places = [folder.join(LIBRARY_NAME), folder.join("../lib/strandline").join(LIBRARY_NAME)];
            let Some(found) = places.iter().find(|place| place.is_file()) else {
                bail!(
                    "the library for programs is missing: {} (`make build` builds it beside this program; \
                     {LIBRARY} says where else it is)",
                    places.map(|place| place.display().to_string()).join(" or ")
                );
            };
            found.clone()
        }
    };
    // The loader takes both for the end of a name.
    let separates = |byte: &u8| matches!(byte, b':' | b' ');
    ensure!(
        !found.as_os_str().as_bytes().iter().any(separates),
        "{}: the path of the library must have no space and no colon",
        found.display()
    );
    Ok(found)
}

/// Finds a program as a shell does.
pub(crate) fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(program.into());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| executable::may_run(path))
}

#[cfg(test)]
mod tests;
