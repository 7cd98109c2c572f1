//! `strandline sip admin`: asks a running server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::server::http::client::{ask, escape};

/// Looks after a running server: who is registered, draining, the configuration read again.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline sip --config sip.toml --admin 127.0.0.1:9091 --admin-token token     the server
  strandline sip admin --token token status
  strandline sip admin --token token bindings alice        users whose addresses begin so
  strandline sip admin --token token show alice@example.com
  strandline sip admin --token token kick alice@example.com
  strandline sip admin --token token drain                 nothing new; drain --off ends that
  strandline sip admin --token token reload                what is wrong with the file changes nothing
The exit code is 1 if there is nobody such, or nothing could be done.")]
pub struct Args {
    /// Where the server's `admin` is
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9091")]
    pub address: SocketAddr,
    /// The file with the token, the same as the server's
    #[arg(long, value_name = "FILE")]
    pub token: PathBuf,
    /// Say it as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do
    #[command(subcommand)]
    pub what: What,
}

/// What can be done.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum What {
    /// Show what the server does
    Status,
    /// List who is registered
    Bindings {
        /// Only users whose addresses begin so
        #[arg(default_value = "", hide_default_value = true)]
        prefix: String,
        /// So many at most
        #[arg(long, default_value_t = 1000)]
        limit: usize,
    },
    /// Show where one user is registered
    Show {
        /// Such as alice@example.com
        user: String,
    },
    /// Take a user's bindings away, and close the connections that they came over
    Kick {
        /// Such as alice@example.com
        user: String,
        /// Only this contact's
        #[arg(long, value_name = "URI")]
        contact: Option<String>,
    },
    /// Answer 503 to registrations and to what begins a dialog; what has begun goes on
    Drain {
        /// End that
        #[arg(long)]
        off: bool,
    },
    /// Read the configuration again
    Reload,
}

/// Does it.
///
/// # Errors
/// If the server isn't there, or can't do it.
pub fn run(args: &Args) -> Result<ExitCode> {
    let path = &args.token;
    let token = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    let asking = Asking { address: args.address, token: token.trim().to_owned() };
    let value = match &args.what {
        What::Status => asking.ask("GET", "/status")?,
        What::Bindings { prefix, limit } => asking.list(prefix, *limit)?,
        What::Show { user } => asking.ask("GET", &format!("/bindings/{}", escape(user)))?,
        What::Kick { user, contact } => {
            let contact = contact.as_ref().map_or(String::new(), |uri| format!("?contact={}", escape(uri)));
            asking.ask("DELETE", &format!("/bindings/{}{contact}", escape(user)))?
        }
        What::Drain { off } => asking.ask(if *off { "DELETE" } else { "PUT" }, "/drain")?,
        What::Reload => asking.ask("POST", "/reload")?,
    };
    if args.json {
        println!("{value}");
    } else {
        print!("{}", told(&args.what, &value));
    }
    Ok(ExitCode::SUCCESS)
}

struct Asking {
    address: SocketAddr,
    token: String,
}

impl Asking {
    fn ask(&self, method: &str, target: &str) -> Result<Value> {
        let address = self.address;
        let (status, body) = ask(address, method, target, Some(&self.token)).with_context(|| {
            format!("{address}: is a SIP server there that was started with --admin {address}?")
        })?;
        let value: Value =
            serde_json::from_str(&body).with_context(|| format!("{address} is no SIP server's [admin]"))?;
        if status == 200 {
            return Ok(value);
        }
        match (value["error"].as_str(), value["hint"].as_str()) {
            (Some(error), Some(hint)) => bail!("{error}: {hint}"),
            (Some(error), None) => bail!("{error}"),
            _ => bail!("{address} answers {status}"),
        }
    }

    /// All pages in one, up to a number of users.
    fn list(&self, prefix: &str, limit: usize) -> Result<Value> {
        let (mut users, mut from) = (Vec::new(), 0);
        while users.len() < limit {
            let ask = (limit - users.len()).min(1000);
            let prefix = escape(prefix);
            let mut page = self.ask("GET", &format!("/bindings?prefix={prefix}&from={from}&limit={ask}"))?;
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

/// As a person reads it.
fn told(what: &What, value: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let list = |key: &str| -> String {
        value[key].as_array().into_iter().flatten().map(|one| format!("  {}\n", text(one))).collect()
    };
    match what {
        What::Bindings { .. } => {
            let mut out: String = value["users"].as_array().into_iter().flatten().map(user).collect();
            if !value["next"].is_null() {
                out.push_str("... and more: --limit\n");
            }
            out
        }
        What::Show { .. } => user(value),
        What::Kick { .. } => {
            format!("{} bindings removed, {} connections closed\n", value["removed"], value["closed"])
        }
        What::Drain { .. } => match value["draining"].as_bool() {
            Some(true) => "draining: what begins something gets 503\n".to_owned(),
            _ => "not draining\n".to_owned(),
        },
        What::Reload => {
            format!("changed:\n{}kept until the server is started again:\n{}", list("changed"), list("kept"))
        }
        What::Status => {
            let lines = value.as_object().into_iter().flatten();
            lines.map(|(key, value)| format!("{key:<20}{}\n", text(value))).collect()
        }
    }
}

fn user(user: &Value) -> String {
    let mut out = format!("{}\n", user["user"].as_str().unwrap_or_default());
    for binding in user["bindings"].as_array().into_iter().flatten() {
        let (contact, from) = (binding["contact"].as_str().unwrap_or_default(), &binding["from"]);
        let (protocol, address) =
            (from["protocol"].as_str().unwrap_or_default(), from["address"].as_str().unwrap_or_default());
        let gone = if binding["connected"] == false { ", gone" } else { "" };
        let secs = &binding["expires_in_secs"];
        out.push_str(&format!("  {contact}  from {protocol} {address}{gone}, for {secs} s\n"));
    }
    out
}
