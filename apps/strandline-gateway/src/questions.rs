//! Questions to processes of before: what became of a connection of `strandline run` that one of them serves.
//!
//! A question comes with a socket for its answer, so that it does not matter how many processes ask:
//!
//! | from | bytes on that socket |
//! |---|---|
//! | new | the host's address (16; IPv4 is mapped), and the key of the socket (8) |
//! | old | the answer, as it is for programs |

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strandline_ipc::send_note;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::preload_request::{ANSWER, is_unknown};
use crate::program_sockets::{Key, Sockets};

/// The note that comes with the socket for a question.
pub(crate) const QUESTION: u8 = b'Q';
/// Time for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Questions to the processes of before.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// Their process IDs, with the streams to them.
    processes: Mutex<Vec<(u32, Arc<UnixStream>)>>,
    /// Whether all of them are known. The listeners serve earlier.
    are_known: watch::Sender<bool>,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, Vec<(u32, Arc<UnixStream>)>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a process. The stream is non-blocking.
    pub(crate) fn add(&self, pid: u32, stream: Arc<UnixStream>) {
        self.lock().push((pid, stream));
    }

    /// Lets questions begin: all processes are added.
    pub(crate) fn begin(&self) {
        self.are_known.send_replace(true);
    }

    /// Forgets a process.
    pub(crate) fn remove(&self, pid: u32) {
        self.lock().retain(|(known, _)| *known != pid);
    }

    /// Returns the answer of the process that knows a socket; `None` if there is none.
    pub(crate) async fn query(&self, key: Key) -> Option<Vec<u8>> {
        // Without it, those that are known may have the answer.
        let _ = timeout(PATIENCE, self.are_known.subscribe().wait_for(|known| *known)).await;
        let all = self.lock().clone();
        for (_, stream) in all {
            match timeout(PATIENCE, query(&stream, key)).await {
                Ok(Ok(answer)) if !is_unknown(&answer) => return Some(answer),
                // Another one may know it.
                _ => {}
            }
        }
        None
    }
}

async fn query(stream: &UnixStream, (host, key): Key) -> io::Result<Vec<u8>> {
    let (ours, theirs) = tokio::net::UnixStream::pair()?;
    let theirs = OwnedFd::from(theirs.into_std()?);
    send_note(stream, QUESTION, Some(theirs.as_fd()))?;
    drop(theirs);
    let (mut ours, mut answer) = (ours, vec![0; ANSWER]);
    let host = match host {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut question = host.octets().to_vec();
    question.extend_from_slice(&key.to_be_bytes());
    ours.write_all(&question).await?;
    ours.read_exact(&mut answer).await?;
    Ok(answer)
}

/// Answers a question of the process that has taken over.
///
/// # Errors
/// If it has given up.
pub(crate) async fn answer(socket: OwnedFd, sockets: &Sockets) -> io::Result<()> {
    let mut stream = tokio::net::UnixStream::from_std(socket.into())?;
    let mut question = [0; 24];
    timeout(PATIENCE, stream.read_exact(&mut question)).await??;
    let (host, key) = question.split_at(16);
    let (Ok(host), Ok(key)) = (<[u8; 16]>::try_from(host), <[u8; 8]>::try_from(key)) else {
        return Ok(());
    };
    let host = IpAddr::V6(Ipv6Addr::from(host)).to_canonical();
    stream.write_all(&sockets.answer((host, u64::from_be_bytes(key)))).await
}

#[cfg(test)]
mod tests;
