//! Sets the rules of captured connections, and removes them. Its functions block.
//!
//! A child process, `nft -i`, holds the table: the kernel removes a table with the flag `owner` when the
//! socket that has made it is closed. The child ends when its standard input does, which is a pipe from this
//! process. So the rules disappear however this process ends. Routes have no owner: the shell around `nft`
//! deletes them afterwards.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result, bail};
use tokio::sync::watch;

use crate::ruleset::{Ruleset, routed, undo};

/// What the answer to `nft -i` begins with, if the table is there.
const SET: &str = "table inet";
/// The last line of that answer.
const SET_END: &str = "\n}\n";

/// Rules that are set until this value is dropped.
#[derive(Debug)]
pub(crate) struct Interception {
    pub(crate) rules: Ruleset,
    child: Child,
    /// The pipe that ends the child.
    input: Option<ChildStdin>,
    /// Set when the child has ended: the rules are gone.
    is_over: watch::Receiver<bool>,
}

impl Interception {
    /// Sets rules in the network namespace of this process.
    ///
    /// # Errors
    /// If `nft` or `ip` is missing, the privilege is, or the kernel refuses the rules.
    pub(crate) fn set(rules: Ruleset) -> Result<Self> {
        check(&rules)?;
        let undo: String = rules.undo().iter().map(|words| format!("; ip {words}")).collect();
        let mut command = Command::new("sh");
        // A signal of the terminal, or for a whole service, is for the gateway, which removes the rules itself.
        command.args(["-c", &format!("trap '' INT TERM HUP; nft -i 2>&1{undo}")]);
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("starting nft")?;
        let input = child.stdin.take();
        let (over, is_over) = watch::channel(false);
        let mut this = Self { rules, child, input, is_over };
        let output = this.child.stdout.take().context("nft has no standard output")?;
        let mut output = BufReader::new(output);
        let table = this.rules.table();
        let mut input = this.input.as_ref().context("nft has no standard input")?;
        // The table is there before the routes: routes without their table are those of a gateway that was killed.
        add(&mut input, &mut output, &table, &format!("table inet {table} {{ flags owner; }}"))?;
        for words in this.rules.routes() {
            run("setting", "ip", words.split(' '), "")?;
        }
        // Commands of `nft -i` are lines.
        let line = this.rules.nft().replace("}\n", "}; ").replace('\n', " ");
        add(&mut input, &mut output, &table, &line)?;
        // The end of what it says is its end, however it comes.
        let watching = std::thread::Builder::new().name("nft".to_owned());
        watching
            .spawn(move || {
                // What it says after the answer is of no use.
                let _ = std::io::copy(&mut output, &mut std::io::sink());
                over.send_replace(true);
            })
            .context("starting a thread")?;
        Ok(this)
    }

    /// Returns what is true once the rules are gone.
    pub(crate) fn is_over(&self) -> watch::Receiver<bool> {
        self.is_over.clone()
    }
}

impl Drop for Interception {
    fn drop(&mut self) {
        self.input = None;
        // The rules are gone once it has ended.
        if let Err(error) = self.child.wait() {
            tracing::warn!(%error, "waiting for the end of nft failed");
        }
    }
}

/// Adds rules by `nft -i`, and waits until the table has them.
fn add(input: &mut impl Write, output: &mut impl BufRead, table: &str, line: &str) -> Result<()> {
    input.write_all(format!("{line}\nlist table inet {table}\n").as_bytes()).context("writing to nft")?;
    let mut answer = String::new();
    while !answer.ends_with(SET_END) {
        let len = output.read_line(&mut answer).context("reading from nft")?;
        if len == 0 || !answer.starts_with(SET) {
            bail!("setting the rules of captured connections failed: nft: {}", answer.trim_end());
        }
    }
    Ok(())
}

/// Deletes the routes of gateways that were killed together with what removes them: their tables of nft are gone.
///
/// # Errors
/// If `ip` or `nft` can't list what there is: everything stays, since a table that can't be listed may be there.
pub(crate) fn remove_left_over() -> Result<()> {
    let mut left = Vec::new();
    for family in [4, 6] {
        let rules = list("ip", &[&format!("-{family}"), "rule"])?;
        left.extend(routed(&rules).into_iter().map(|number| (family, number)));
    }
    if left.is_empty() {
        return Ok(());
    }
    // Behind the routes: a table is there before its routes.
    let tables = list("nft", &["list", "tables", "inet"])?;
    for (family, number) in left {
        let table = Ruleset::new(number, Vec::new()).table();
        if tables.lines().any(|line| line.split_whitespace().last() == Some(&table)) {
            continue;
        }
        tracing::info!(table, "removing the routes of a gateway that was killed");
        for words in undo(family, number) {
            // Another gateway may remove them at the same time.
            let _ = run("removing", "ip", words.split(' '), "");
        }
    }
    Ok(())
}

/// Returns what a program lists.
fn list(program: &str, words: &[&str]) -> Result<String> {
    let output = Command::new(program).args(words).output().map_err(|error| missing(program, error))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("{program} {}: {}", words.join(" "), text.trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Lets `nft` check rules without setting them: it says more than `nft -i` does.
///
/// # Errors
/// As [`Interception::set`].
pub(crate) fn check(rules: &Ruleset) -> Result<()> {
    run("checking", "nft", ["-c", "-f", "-"], &rules.nft())
}

/// Checks that routes can be listed, without setting any.
///
/// # Errors
/// As [`Interception::set`].
pub(crate) fn check_routes() -> Result<()> {
    list("ip", &["rule"]).map(drop)
}

/// Runs a program to its end. `doing` says what it does with the rules.
fn run<'a>(doing: &str, program: &str, words: impl IntoIterator<Item = &'a str>, input: &str) -> Result<()> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| missing(program, error))?;
    if let Some(mut pipe) = child.stdin.take() {
        // A program that has ended says why below.
        let _ = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().with_context(|| format!("waiting for {program}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let hint = if text.contains("not permitted") {
        ": it needs CAP_NET_ADMIN (run the gateway as root, or give it AmbientCapabilities=CAP_NET_ADMIN in its unit)"
    } else {
        ""
    };
    bail!("{doing} the rules of captured connections failed: {program}: {}{hint}", text.trim_end())
}

fn missing(program: &str, error: std::io::Error) -> anyhow::Error {
    if error.kind() != ErrorKind::NotFound {
        return anyhow::Error::new(error).context(format!("starting {program}"));
    }
    let package = if program == "nft" { "nftables" } else { "iproute2" };
    anyhow::anyhow!(
        "capturing connections needs the program {program} (apt-get install {package}); without it, leave capture out and \
         set the rules yourself"
    )
}
