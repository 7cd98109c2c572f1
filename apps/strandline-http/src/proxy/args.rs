//! Options that both kinds of proxies have.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use super::dial::Timeouts;
use super::relay::Settings;
use crate::encryption::UpstreamEncryption;
use crate::front::log::AccessLog;

/// Time-outs and limits towards upstream servers.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct UpstreamArgs {
    /// This proxy's name in Via and Proxy-Status. Default: strandline- and a random number
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    name: Option<String>,
    /// Requests and tunnels at the same time; further requests get 503
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests_max: u32,
    /// Seconds to connect to an upstream server; the client gets 504 afterwards
    #[arg(long, value_name = "SECS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    connect_timeout: u32,
    /// Seconds to wait for the next part of a response (504 afterwards), or for the server to read more of a
    /// request's body
    #[arg(long, value_name = "SECS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    response_timeout: u32,
    /// Abort an association whose server sends nothing for SECS, not even answers to HEARTBEATs
    #[arg(long, value_name = "SECS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    silence_timeout: u32,
    /// Reset a tunnel (CONNECT, WebSocket) without a byte for SECS
    #[arg(long, value_name = "SECS", default_value_t = 3600, value_parser = clap::value_parser!(u32).range(1..))]
    tunnel_timeout: u32,
    /// Encryption of SCTP to upstream servers
    #[command(flatten)]
    pub(super) encryption: UpstreamEncryption,
}

impl UpstreamArgs {
    pub(super) fn timeouts(&self) -> Timeouts {
        Timeouts {
            connect: seconds(self.connect_timeout),
            write: seconds(self.response_timeout),
            silence: seconds(self.silence_timeout),
        }
    }

    pub(super) fn settings(&self, log: Option<Arc<AccessLog>>) -> Settings {
        let random = RandomState::new().hash_one(std::process::id());
        Settings {
            name: self.name.clone().unwrap_or_else(|| format!("strandline-{:08x}", random >> 32)),
            log,
            requests_max: self.requests_max,
            response_timeout: seconds(self.response_timeout),
            tunnel_timeout: seconds(self.tunnel_timeout),
        }
    }
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

/// Parses a pseudonym of Via: letters, digits and a few signs.
fn parse_name(text: &str) -> Result<String, String> {
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let begins = text.starts_with(|letter: char| letter.is_ascii_alphabetic());
    if is_name && begins {
        Ok(text.to_owned())
    } else {
        Err("a name begins with a letter and has letters, digits, '-', '.' and '_'".to_owned())
    }
}
