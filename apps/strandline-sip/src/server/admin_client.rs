//! `strandline sip admin`: sends requests to a running server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use strandline_ops::http::client::{NoAnswer, send_request};
use strandline_ops::http::escape;
use strandline_output::{out, outln};

/// Default timeout in seconds. It is longer than the server may take, since `store.timeout_ms` is at most 30
/// s.
const TIMEOUT_SECS: u16 = 40;

/// Maximum size of a token file, in bytes.
const TOKEN_BYTES_MAX: u64 = 64 << 10;

/// Administers a running server: registrations, draining, reloading the configuration.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline sip --config sip.toml --admin 127.0.0.1:9091 --admin-token token     start the server
  strandline sip admin --token token status
  strandline sip admin --token token bindings alice        users whose addresses begin with alice
  strandline sip admin --token token show alice@example.com
  strandline sip admin --token token kick alice@example.com
  strandline sip admin --token token drain                 refuse new requests, until drain --off
  strandline sip admin --token token reload                an invalid file changes nothing
The exit code is 1 if the user is unknown or the request failed. After a time-out the error says how to find out
whether the request took effect.")]
pub struct Args {
    /// Address of the server's administration interface
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9091")]
    pub address: SocketAddr,
    /// File with the token, the same as the server's
    #[arg(long, value_name = "FILE")]
    pub token: PathBuf,
    /// Time limit for a response in seconds; changes wait for the store
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = TIMEOUT_SECS, value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub timeout: u16,
    /// Print the response as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Request to make
    #[command(subcommand)]
    pub what: What,
}

/// The commands.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum What {
    /// Show the server's activity
    #[command(after_help = "\
Examples:
  strandline sip admin --token token status                       one line per value
  strandline sip admin --token token status --json | jq .users    machine-readable")]
    Status,
    /// List registered users
    #[command(after_help = "\
Examples:
  strandline sip admin --token token bindings                     the first 1,000 users
  strandline sip admin --token token bindings alice --limit 20    20 whose addresses begin with alice
  strandline sip admin --token token bindings --limit 1000000 --json > bindings.json")]
    Bindings {
        /// Only users whose addresses start with this
        #[arg(default_value = "", hide_default_value = true)]
        prefix: String,
        /// Maximum number of users
        #[arg(long, default_value_t = 1000)]
        limit: usize,
    },
    /// Show the bindings of a user
    #[command(after_help = "\
Examples:
  strandline sip admin --token token show alice@example.com
  strandline sip admin --token token show alice@example.com --json | jq -r '.bindings[].contact'")]
    Show {
        /// User, such as alice@example.com
        user: String,
    },
    /// Remove a user's bindings, and close the connections over which they were registered
    #[command(after_help = "\
Examples:
  strandline sip admin --token token kick alice@example.com    all bindings
  strandline sip admin --token token kick alice@example.com --contact 'sip:alice@192.0.2.9:5060'
                                                               one binding, as listed by show
The response waits until the store has removed them too.")]
    Kick {
        /// User, such as alice@example.com
        user: String,
        /// Only the binding of this contact
        #[arg(long, value_name = "URI")]
        contact: Option<String>,
    },
    /// Answer registrations and requests outside dialogs with 503; existing calls continue
    #[command(after_help = "\
Examples:
  strandline sip admin --token token drain          before a restart
  strandline sip admin --token token drain --off    accept new requests again
  strandline sip admin --token token status         see draining and the transactions left
A restart ends draining.")]
    Drain {
        /// Stop draining
        #[arg(long)]
        off: bool,
    },
    /// Reload the configuration
    #[command(after_help = "\
Examples:
  strandline sip --config sip.toml --check                       check the file first
  strandline sip admin --token token reload                      like SIGHUP, and print what changed
  strandline sip admin --token token reload --json | jq .kept    changes that need a restart")]
    Reload,
}

impl What {
    /// Advice for a request that got no response.
    fn find_out(&self) -> String {
        let done = "the request may have been carried out, or still may be";
        match self {
            Self::Status | Self::Bindings { .. } | Self::Show { .. } => {
                "the server may be overloaded; a larger --timeout waits longer".to_owned()
            }
            Self::Kick { user, .. } => {
                format!("{done}: check with `show {user}`; a larger --timeout waits longer for the store")
            }
            Self::Drain { .. } => format!("{done}: check `draining` in the output of `status`"),
            Self::Reload => format!("{done}: check `reloads` in the output of `status`, or the server's log"),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the server can't be reached or rejects the request.
pub fn run(args: &Args) -> Result<ExitCode> {
    let path = &args.token;
    let token = strandline_output::read_text(path, TOKEN_BYTES_MAX)
        .with_context(|| format!("reading the token in {}", path.display()))?;
    let timeout = Duration::from_secs(args.timeout.into());
    let admin =
        AdminClient { address: args.address, token: token.trim().to_owned(), timeout, what: &args.what };
    let value = match &args.what {
        What::Status => admin.request("GET", "/status")?,
        What::Bindings { prefix, limit } => admin.list(prefix, *limit)?,
        What::Show { user } => admin.request("GET", &format!("/bindings/{}", escape(user)))?,
        What::Kick { user, contact } => {
            let contact = contact.as_ref().map_or(String::new(), |uri| format!("?contact={}", escape(uri)));
            admin.request("DELETE", &format!("/bindings/{}{contact}", escape(user)))?
        }
        What::Drain { off } => admin.request(if *off { "DELETE" } else { "PUT" }, "/drain")?,
        What::Reload => admin.request("POST", "/reload")?,
    };
    if args.json {
        outln!("{value}");
    } else {
        out!("{}", formatted(&args.what, &value));
    }
    Ok(ExitCode::SUCCESS)
}

struct AdminClient<'a> {
    address: SocketAddr,
    token: String,
    timeout: Duration,
    what: &'a What,
}

impl AdminClient<'_> {
    fn request(&self, method: &str, target: &str) -> Result<Value> {
        let address = self.address;
        let answer = send_request(address, method, target, Some(&self.token), self.timeout);
        let (status, body) = match answer {
            Ok(answer) => answer,
            Err(error) if error.may_be_done() => bail!("{address}: {error}; {}", self.what.find_out()),
            Err(error @ NoAnswer::NotThere(_)) => bail!(
                "{address}: {error}: is a SIP server running there with --admin {address}? The request was not sent"
            ),
            Err(error) => bail!("{address}: {error}: is this the address of the server's --admin?"),
        };
        let value: Value = serde_json::from_str(&body)
            .with_context(|| format!("{address} is not the [admin] address of a SIP server"))?;
        if status == 200 {
            return Ok(value);
        }
        match (value["error"].as_str(), value["hint"].as_str()) {
            (Some(error), Some(hint)) => bail!("{error}: {hint}"),
            (Some(error), None) => bail!("{error}"),
            _ => bail!("{address} answered with HTTP status {status}"),
        }
    }

    /// Fetches all pages, up to a number of users.
    fn list(&self, prefix: &str, limit: usize) -> Result<Value> {
        let (mut users, mut from) = (Vec::new(), 0);
        while users.len() < limit {
            let count = (limit - users.len()).min(1000);
            let prefix = escape(prefix);
            let mut page =
                self.request("GET", &format!("/bindings?prefix={prefix}&from={from}&limit={count}"))?;
            if let Some(page) = page["users"].as_array_mut() {
                users.append(page);
            }
            match page["next"].as_u64() {
                Some(next) => from = next,
                None => return Ok(serde_json::json!({"users": users, "next": null})),
            }
        }
        Ok(serde_json::json!({"users": users, "next": from}))
    }
}

/// Formats a response for humans.
fn formatted(what: &What, value: &Value) -> String {
    let list = |key: &str| -> String {
        value[key].as_array().into_iter().flatten().map(|one| format!("  {}\n", text(one))).collect()
    };
    match what {
        What::Bindings { .. } => {
            let mut out: String = value["users"].as_array().into_iter().flatten().map(user).collect();
            if !value["next"].is_null() {
                out.push_str("... more users exist; raise --limit\n");
            }
            out
        }
        What::Show { .. } => user(value),
        What::Kick { .. } => {
            format!("{} bindings removed, {} connections closed\n", value["removed"], value["closed"])
        }
        What::Drain { .. } => match value["draining"].as_bool() {
            Some(true) => format!("draining: new requests get 503\n{}", silent(value)),
            _ => format!("not draining\n{}", silent(value)),
        },
        What::Reload => {
            let (changed, kept) = (list("changed"), list("kept"));
            let or_nothing = |list: String| if list.is_empty() { "  nothing\n".to_owned() } else { list };
            format!(
                "changed:\n{}unchanged until a restart:\n{}{}",
                or_nothing(changed),
                or_nothing(kept),
                silent(value)
            )
        }
        What::Status => {
            let mut out = String::new();
            figures("", value, &mut out);
            out
        }
    }
}

/// Writes a line for each figure, with its path in the JSON.
fn figures(name: &str, value: &Value, out: &mut String) {
    let below = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| figures(&below(key), value, out)),
        Value::Array(items) if items.iter().any(Value::is_object) => {
            let numbered = items.iter().enumerate();
            numbered.for_each(|(at, value)| figures(&below(&(at + 1).to_string()), value, out));
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(text).collect();
            out.push_str(&format!("{name:<28}{}\n", items.join(", ")));
        }
        Value::Null => out.push_str(&format!("{name:<28}-\n")),
        value => out.push_str(&format!("{name:<28}{}\n", text(value))),
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A note about processes that have not confirmed the command.
fn silent(value: &Value) -> String {
    match value["workers_silent"].as_u64() {
        Some(silent) if silent > 0 => {
            format!("{silent} worker processes have not answered: check later with `status`\n")
        }
        _ => String::new(),
    }
}

fn user(user: &Value) -> String {
    let mut out = format!("{}\n", user["user"].as_str().unwrap_or_default());
    for binding in user["bindings"].as_array().into_iter().flatten() {
        let (contact, from) = (binding["contact"].as_str().unwrap_or_default(), &binding["from"]);
        let (protocol, address) =
            (from["protocol"].as_str().unwrap_or_default(), from["address"].as_str().unwrap_or_default());
        let gone = if binding["connected"] == false { ", disconnected" } else { "" };
        let secs = &binding["expires_in_secs"];
        out.push_str(&format!("  {contact}  from {protocol} {address}{gone}, expires in {secs} s\n"));
    }
    out
}
