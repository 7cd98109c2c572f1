//! The control socket of a running network: a Unix socket, with one JSON request and answer for each
//! connection.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream as BlockingStream;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use strandline_output::errln;
use strandline_tls::AcceptErrors;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::namespace::{Namespaces, control_socket, networks};
use super::network::Network;
use super::schedule::TargetedChange;

/// Longest request, bytes.
const REQUEST_MAX: u64 = 65_536;
/// Time limit for a client, because the others wait meanwhile.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A request to a running network.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Returns the report so far.
    Status,
    /// Applies a change, given as text: `path=1 to-right loss=1%`.
    Change(String),
    /// Ends the network; answered with the report so far.
    Down,
}

/// The answer to a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Done(serde_json::Value),
    Failed(String),
}

/// The owner's end of the socket.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
}

impl Control {
    /// Listens for requests to a network.
    ///
    /// # Errors
    /// If the socket can't be created.
    pub fn listen(namespaces: &Namespaces) -> Result<Self> {
        let path = control_socket(namespaces.name());
        let listener =
            UnixListener::bind(&path).with_context(|| format!("listening at {}", path.display()))?;
        Ok(Self { listener })
    }

    /// Serves requests until one ends the network.
    pub async fn serve(&self, network: &Network) {
        let mut errors = AcceptErrors::default();
        loop {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    if let Err(error) = errors.recover(error).await {
                        // The network goes on: what runs in it may not need another request.
                        errln!("the emulated network takes no more requests: {error}");
                        return std::future::pending().await;
                    }
                    continue;
                }
            };
            // A client that disconnects or sends nothing is dropped without effect.
            if let Ok(Ok(true)) = tokio::time::timeout(TIMEOUT, Self::serve_one(stream, network)).await {
                return;
            }
        }
    }

    async fn serve_one(mut stream: UnixStream, network: &Network) -> Result<bool> {
        let mut text = Vec::new();
        (&mut stream).take(REQUEST_MAX).read_to_end(&mut text).await?;
        let request: Result<Request, _> = serde_json::from_slice(&text);
        let down = matches!(request, Ok(Request::Down));
        let answer = match request {
            Ok(request) => carry_out(network, &request),
            Err(error) => Err(anyhow!("malformed request: {error}")),
        };
        let answer = answer.map_or_else(|error| Answer::Failed(format!("{error:#}")), Answer::Done);
        stream.write_all(&serde_json::to_vec(&answer)?).await?;
        Ok(down)
    }
}

fn carry_out(network: &Network, request: &Request) -> Result<serde_json::Value> {
    if let Request::Change(text) = request {
        let change: TargetedChange = text.parse().map_err(|error: String| anyhow!(error))?;
        let paths = network.topology().paths.len();
        if let Some(path) = change.target.path.filter(|&path| path > paths) {
            bail!("no path {path}: this network has {paths}");
        }
        network.change(change);
    }
    Ok(serde_json::to_value(network.report()?)?)
}

/// Sends a request to the owner of a network; returns the report.
///
/// # Errors
/// If there is no such network, or the owner returned an error.
pub fn query(name: &str, request: &Request) -> Result<serde_json::Value> {
    let mut stream = BlockingStream::connect(control_socket(name)).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            anyhow!("no network '{name}' is up (strandline netem up --name {name})")
        }
        _ => anyhow!(error).context(format!("querying the network '{name}'")),
    })?;
    stream.write_all(&serde_json::to_vec(request)?)?;
    stream.shutdown(Shutdown::Write)?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text)?;
    match serde_json::from_slice(&text)
        .with_context(|| format!("reading the response of the network '{name}'"))?
    {
        Answer::Done(report) => Ok(report),
        Answer::Failed(error) => bail!(error),
    }
}

/// Returns the named network, or the only one that is up.
///
/// # Errors
/// If none is up, or several are and none is named.
pub fn choose(name: Option<&str>) -> Result<String> {
    if let Some(name) = name {
        return Ok(name.to_owned());
    }
    let up: Vec<String> = networks()?.into_iter().filter(|(_, lives)| *lives).map(|(name, _)| name).collect();
    match up.as_slice() {
        [] => bail!("no network is up: create one with 'strandline netem up'"),
        [only] => Ok(only.clone()),
        several => bail!("several networks are up: choose one with --name ({})", several.join(", ")),
    }
}
