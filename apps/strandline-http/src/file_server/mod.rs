//! `strandline http serve`: the files of a directory over TCP and SCTP.

#[cfg(test)]
mod raw;
mod site;
#[cfg(test)]
pub(crate) mod testing;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};

use self::site::Site;
use crate::files::Files;
use crate::front::{ConnectionArgs, Front, ListenArgs, Shards, raise_open_files};

/// `strandline http serve`: without options it listens on 127.0.0.1, on TCP and SCTP.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline http serve DIR                           http://127.0.0.1:8080/ on TCP, SCTP port 8080 in UDP port 9899
  strandline http serve DIR --list --access-log -     listings of directories, and a line for each request
  strandline http serve DIR --listen '[::]:443' --certificate cert.pem --key key.pem
                                                      HTTPS on TCP, HTTP on SCTP
Limits, headers and how clients learn of SCTP: docs/http.md")]
pub struct Args {
    /// The directory to serve
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Addresses and certificate
    #[command(flatten)]
    pub listen: ListenArgs,
    /// List directories that have no index.html
    #[arg(long)]
    pub list: bool,
    /// Limits, time-outs and the access log
    #[command(flatten)]
    pub connections: ConnectionArgs,
}

/// Serves until interrupted.
///
/// # Errors
/// If the directory can't be opened or an address can't be listened on.
pub fn run(args: &Args) -> Result<()> {
    raise_open_files();
    Shards::run(args.connections.shards, async |shards| {
        let (front, site) = bind(args, shards).await?;
        let heading = format!("Serving {}", args.directory.display());
        front.run_until_signals(site, &heading, &args.connections).await
    })?
}

/// Opens the directory and the log, and listens.
async fn bind(args: &Args, shards: Shards) -> Result<(Front, Arc<Site>)> {
    let files = Files::open(&args.directory, args.list);
    let files = files.with_context(|| format!("opening {}", args.directory.display()))?;
    let log = args.connections.log()?;
    let addresses = args.listen.addresses(args.connections.association())?;
    let front = Front::bind(addresses, args.connections.limits(), shards).await?;
    let alt_svc = front.listening.alt_svc();
    Ok((front, Arc::new(Site { files, log, alt_svc })))
}

#[cfg(test)]
mod tests;
