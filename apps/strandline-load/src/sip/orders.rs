//! The orders that one of several processes receives on its standard input, and its answers on standard
//! output: one line of JSON each.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use strandline_measure::raise_open_files;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

/// The answer of a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply<D> {
    Done(Box<D>),
    /// The process can't continue.
    Failed(String),
}

impl<D> Reply<D> {
    pub(super) fn into_result(self) -> Result<D> {
        match self {
            Self::Done(done) => Ok(*done),
            Self::Failed(reason) => bail!(reason),
        }
    }
}

/// Executes orders until there are no more, because the controller is gone. The state kept between orders
/// begins as `None`.
///
/// # Errors
/// If communication with the controller fails.
pub(super) fn obey_all<S, D: Serialize>(
    runtime: &Runtime,
    obey: impl AsyncFn(&mut Option<S>, &str) -> Result<D>,
) -> Result<()> {
    raise_open_files();
    LocalSet::new().block_on(runtime, async {
        let mut input = BufReader::new(tokio::io::stdin()).lines();
        let mut output = tokio::io::stdout();
        let mut kept = None;
        while let Some(line) = input.next_line().await? {
            let reply = match obey(&mut kept, &line).await {
                Ok(done) => Reply::Done(Box::new(done)),
                Err(error) => Reply::Failed(format!("{error:#}")),
            };
            let mut text = serde_json::to_string(&reply)?;
            text.push('\n');
            output.write_all(text.as_bytes()).await?;
            output.flush().await?;
        }
        Ok(())
    })
}
