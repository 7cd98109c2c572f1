//! `strandline gateway status`: the connections of a gateway that runs, with their rates.

use std::collections::{BTreeSet, HashMap};
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use strandline_ops::http::client::send_request;
use strandline_output::{clear_screen, out, outln};

use crate::admin_token::AdminToken;

/// Time for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time for a new process to start.
const RESTART_TIMEOUT: Duration = Duration::from_secs(65);
/// Time for an old process to end.
const END_TIMEOUT: Duration = Duration::from_secs(3600);
/// Rows of a table.
const ROWS: usize = 40;

/// Options of `strandline gateway status`.
#[derive(Debug, Clone, clap::Args)]
pub struct StatusArgs {
    /// The gateway's --admin address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9898", value_parser = strandline::socket_address)]
    pub admin: SocketAddr,
    /// Print once as JSON, with the rates of one interval
    #[arg(long)]
    pub json: bool,
    /// Print one table instead of a live one
    #[arg(long)]
    pub once: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub interval: u32,
}

/// Options of `strandline gateway reload`.
#[derive(Debug, Clone, clap::Args)]
pub struct ReloadArgs {
    /// The gateway's --admin address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9898", value_parser = strandline::socket_address)]
    pub admin: SocketAddr,
    /// The gateway's --admin-token
    #[arg(long, value_name = "FILE")]
    pub admin_token: Option<PathBuf>,
}

/// Options of `strandline gateway restart`.
#[derive(Debug, Clone, clap::Args)]
pub struct RestartArgs {
    /// The gateway's --admin address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9898", value_parser = strandline::socket_address)]
    pub admin: SocketAddr,
    /// The gateway's --admin-token
    #[arg(long, value_name = "FILE")]
    pub admin_token: Option<PathBuf>,
    /// If three old processes still have connections, end the oldest: its connections have drain_timeout_secs,
    /// and are reset then
    #[arg(long)]
    pub end_oldest: bool,
}

/// Lets a gateway reload its configuration, and prints what has changed.
///
/// # Errors
/// If no gateway answers, or the configuration is invalid.
pub(crate) fn reload(args: &ReloadArgs) -> Result<ExitCode> {
    let admin = args.admin;
    let token = args.admin_token.as_deref().map(AdminToken::read).transpose()?;
    let token = token.as_ref().map(AdminToken::as_str);
    let asked = send_request(admin, "POST", "/reload", token, RESTART_TIMEOUT);
    let (status, body) =
        asked.with_context(|| format!("asking the gateway at {admin} (its --admin address)"))?;
    let answer: Value = serde_json::from_str(&body).with_context(|| format!("the answer of {admin}"))?;
    if status != 200 {
        bail!("not reloaded: {}", answer["error"].as_str().unwrap_or(&body));
    }
    let list = |name: &str| {
        let items = answer[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        items.collect::<Vec<_>>().join(", ")
    };
    let (changed, kept) = (list("changed"), list("kept"));
    outln!("reloaded; changed: {}", if changed.is_empty() { "nothing" } else { &changed });
    if !kept.is_empty() {
        outln!("{kept}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Restarts a gateway without dropping connections.
///
/// # Errors
/// If no gateway answers, or the new process does not start.
pub(crate) fn restart(args: &RestartArgs) -> Result<ExitCode> {
    let admin = args.admin;
    let token = args.admin_token.as_deref().map(AdminToken::read).transpose()?;
    let token = token.as_ref().map(AdminToken::as_str);
    let (path, limit) = match args.end_oldest {
        true => ("/restart?end-oldest", RESTART_TIMEOUT + END_TIMEOUT),
        false => ("/restart", RESTART_TIMEOUT),
    };
    let asked = send_request(admin, "POST", path, token, limit);
    let (status, body) =
        asked.with_context(|| format!("asking the gateway at {admin} (its --admin address)"))?;
    let answer: Value = serde_json::from_str(&body).with_context(|| format!("the answer of {admin}"))?;
    if status != 200 {
        bail!("not restarted: {}", answer["error"].as_str().unwrap_or(&body));
    }
    let (pid, connections) = (&answer["pid"], &answer["connections"]);
    outln!("restarted: process {pid} serves; {connections} connections stay with the old one until they end");
    Ok(ExitCode::SUCCESS)
}

/// Shows the status: once if standard output is no terminal, otherwise until interrupted.
///
/// # Errors
/// If no gateway answers at the address.
pub(crate) fn run(args: &StatusArgs) -> Result<ExitCode> {
    let interval = Duration::from_secs(args.interval.into());
    let is_live = !args.json && !args.once && std::io::stdout().is_terminal();
    let mut before = fetch(args.admin)?;
    loop {
        pause(interval);
        let mut now = fetch(args.admin)?;
        add_rates(&before, &mut now, interval);
        if args.json {
            outln!("{now}");
            return Ok(ExitCode::SUCCESS);
        }
        if is_live {
            clear_screen();
        }
        out!("{}", table(&now));
        if !is_live {
            return Ok(ExitCode::SUCCESS);
        }
        before = now;
    }
}

#[allow(clippy::disallowed_methods, reason = "it looks at a program from outside")]
fn pause(interval: Duration) {
    // Sleeps because a rate needs two looks.
    std::thread::sleep(interval);
}

fn fetch(admin: SocketAddr) -> Result<Value> {
    let asked = send_request(admin, "GET", "/status", None, TIMEOUT);
    let (status, body) =
        asked.with_context(|| format!("asking the gateway at {admin} (its --admin address)"))?;
    if status != 200 {
        bail!("{admin} answers with status {status}: is it a gateway's --admin address?");
    }
    serde_json::from_str(&body).with_context(|| format!("the answer of {admin}"))
}

/// Adds the rates since the look before to each connection, in bytes per second.
fn add_rates(before: &Value, now: &mut Value, interval: Duration) {
    let bytes = |value: &Value, name: &str| value[name].as_u64().unwrap_or_default();
    let known: HashMap<u64, &Value> = before["connections"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| Some((one["id"].as_u64()?, one)))
        .collect();
    for one in now["connections"].as_array_mut().into_iter().flatten() {
        let old = one["id"].as_u64().and_then(|id| known.get(&id).copied());
        for (name, rate) in [("bytes_up", "up_per_sec"), ("bytes_down", "down_per_sec")] {
            let more = bytes(one, name).saturating_sub(old.map_or(0, |old| bytes(old, name)));
            one[rate] = json!(more as f64 / interval.as_secs_f64());
        }
    }
}

/// Returns the table, the fastest connections first.
fn table(status: &Value) -> String {
    let mut text = String::new();
    for peer in status["peers"].as_array().into_iter().flatten() {
        let state = if peer["up"] == true { "up" } else { "down" };
        text.push_str(&format!(
            "peer {}  {state}{}\n",
            peer["name"].as_str().unwrap_or_default(),
            mapping(peer)
        ));
    }
    for (address, state) in silent_paths(status) {
        text.push_str(&format!("path to {address}  {state}: it does not answer\n"));
    }
    for failed in status["listeners"].as_array().into_iter().flatten().filter(|one| one["failed"] == true) {
        let word = |name: &str| failed[name].as_str().unwrap_or_default();
        text.push_str(&format!(
            "listener {}  {}  FAILED: it accepts nothing\n",
            word("listener"),
            word("listen")
        ));
    }
    for reverse in status["reverses"].as_array().into_iter().flatten() {
        let word = |name: &str| reverse[name].as_str().unwrap_or_default();
        let reason = reverse["reason"].as_str().map_or_else(String::new, |reason| format!(": {reason}"));
        let (name, listen, peer) = (word("listener"), word("listen"), word("peer"));
        text.push_str(&format!("{name} {listen} at {peer}  {}{reason}\n", word("state")));
    }
    for former in status["former_processes"].as_array().into_iter().flatten() {
        text.push_str(&format!("old process {}  {} connections\n", former["pid"], former["connections"]));
    }
    let associations = status["associations"].as_array().map_or(0, Vec::len);
    text.push_str(&format!("{associations} associations, {} connections\n", status["open"]));
    let mut rows: Vec<&Value> = status["connections"].as_array().into_iter().flatten().collect();
    let rate =
        |row: &Value| row["up_per_sec"].as_f64().unwrap_or(0.0) + row["down_per_sec"].as_f64().unwrap_or(0.0);
    rows.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
    if rows.is_empty() {
        return text;
    }
    text.push_str(&format!(
        "{:<12} {:<12} {:<36} {:>6} {:>8} {:>10} {:>10} {:>10} {:>10}\n",
        "listener", "peer", "destination", "stream", "seconds", "up", "down", "up/s", "down/s"
    ));
    for row in rows.iter().take(ROWS) {
        let word = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| size(row[name].as_f64().unwrap_or(0.0));
        let stream = row["stream"].as_u64().map_or_else(|| "-".to_owned(), |stream| stream.to_string());
        text.push_str(&format!(
            "{:<12} {:<12} {:<36} {:>6} {:>8.0} {:>10} {:>10} {:>10} {:>10}\n",
            word("listener"),
            word("peer"),
            word("destination"),
            stream,
            row["seconds"].as_f64().unwrap_or(0.0),
            number("bytes_up"),
            number("bytes_down"),
            number("up_per_sec"),
            number("down_per_sec"),
        ));
    }
    if rows.len() > ROWS {
        text.push_str(&format!("and {} more\n", rows.len() - ROWS));
    }
    text
}

/// Returns the addresses of peers that do not answer, each with the state of its path.
fn silent_paths(status: &Value) -> BTreeSet<(&str, &str)> {
    let associations = status["associations"].as_array().into_iter().flatten();
    let paths = associations.filter_map(|association| association["paths"].as_array()).flatten();
    let silent =
        paths.filter(|path| ["PotentiallyFailed", "Inactive"].iter().any(|state| path["state"] == *state));
    silent.filter_map(|path| Some((path["address"].as_str()?, path["state"].as_str()?))).collect()
}

/// Returns what becomes of new connections to a peer, and why.
fn mapping(peer: &Value) -> String {
    let Some(decision) = peer["decision"].as_str() else { return String::new() };
    let mut text = format!("  new connections: {decision} ({})", peer["reason"].as_str().unwrap_or_default());
    if let Some(rtt) = peer["rtt_ms"].as_f64() {
        text.push_str(&format!("  RTT {rtt:.1} ms"));
    }
    for (arrow, loss, window) in
        [("up", "loss_up", "window_up_bytes"), ("down", "loss_down", "window_down_bytes")]
    {
        let Some(window) = peer[window].as_f64() else { continue };
        let loss =
            peer[loss].as_f64().map_or_else(String::new, |loss| format!(", loss {:.2} %", loss * 100.0));
        text.push_str(&format!("  {arrow}: window {}{loss}", size(window)));
    }
    if let (Some(contexts), Some(most)) = (peer["contexts"].as_u64(), peer["contexts_max"].as_u64()) {
        text.push_str(&format!("  contexts {contexts} of {most}"));
    }
    text
}

/// Returns a number of bytes in the unit that suits it.
fn size(bytes: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0);
    format!("{value:.digits$} {}", units.get(unit).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests;
