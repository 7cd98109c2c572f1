//! What a supervisor and its workers say to one another: a head that names it, as JSON, and bytes that belong to it.

use std::io::{self, Read};
use std::net::SocketAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Nothing is longer: all bindings of a worker could be written down at once.
const FRAME_MAX: usize = 1 << 30;

/// From the supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ToWorker {
    /// The first. The bytes are the configuration as it was at the start of all.
    Hello(Hello),
    /// The configuration was read again: the bytes are what counts now. To be answered, unless it comes right after the first.
    Reload { id: u64 },
    /// What users have at a worker, as a journal has it: part of what there is at the start.
    State { worker: u8 },
    /// That was all.
    Loaded,
    /// A worker has changed something; the bytes are a journal. To be confirmed.
    Changes { number: u64, worker: u8 },
    /// A commit is durable, or why it is not.
    Committed { number: u64, error: Option<String> },
    /// Which workers live.
    Alive { workers: u64 },
    /// Somebody asks, as over HTTP.
    Ask { id: u64, method: String, target: String },
    /// Nobody needs this worker any more.
    End,
}

/// What a worker has to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Of how many it is one.
    pub(super) count: u8,
    /// When it was begun: later than any earlier run of it.
    pub(super) begun_unix_secs: u64,
    /// The keys of flow tokens, of nonces, and of hashes that all workers have to agree on.
    pub(super) tokens: [u8; 16],
    pub(super) nonces: [u8; 16],
    pub(super) hashes: [u8; 16],
    /// Which workers serve: a bit for each.
    pub(super) alive: u64,
    /// Its bindings are kept by the supervisor, and those of the others come from there.
    pub(super) relays: bool,
    /// The SCTP port, and the UDP port that carries it, if they are known.
    pub(super) sctp: Option<(u16, u16)>,
    /// The sockets that it has to listen on, in the order in which they were handed over.
    pub(super) sockets: Vec<Handed>,
    /// The configuration was read again since the start.
    pub(super) reloaded: bool,
    /// Nothing new begins.
    pub(super) draining: bool,
}

/// What a socket is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Handed {
    /// The name of its protocol, as in the configuration.
    pub(super) protocol: String,
    /// The address in the configuration, whose port may be 0.
    pub(super) address: SocketAddr,
    /// Where it is.
    pub(super) bound: SocketAddr,
}

/// From a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ToSupervisor {
    /// It serves.
    Ready { users: usize, sctp: Option<(u16, u16)> },
    /// Changes to be written down: the bytes are a journal.
    Commit { number: u64 },
    /// Changes of another worker are known here, up to these.
    Merged { number: u64 },
    /// What somebody asked for.
    Answer { id: u64, status: u16 },
    /// It has the new configuration, or why it can't have it.
    Reloaded { id: u64, error: Option<String> },
    /// All that it had begun is over.
    Drained,
}

/// As it is sent.
pub(super) fn frame(head: &impl Serialize, body: &[u8]) -> io::Result<Vec<u8>> {
    let head = serde_json::to_vec(head)?;
    let mut whole = Vec::with_capacity(8 + head.len() + body.len());
    for len in [head.len(), body.len()] {
        let len = u32::try_from(len).ok().filter(|len| *len as usize <= FRAME_MAX);
        let len = len.ok_or_else(|| io::Error::other("a frame is too long"))?;
        whole.extend_from_slice(&len.to_le_bytes());
    }
    whole.extend_from_slice(&head);
    whole.extend_from_slice(body);
    Ok(whole)
}

/// Reads one: its head and its body.
///
/// # Errors
/// If there is none, or something else.
pub(super) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<(T, Vec<u8>)> {
    let mut lens = [0; 8];
    from.read_exact(&mut lens)?;
    let [a, b, c, d, e, f, g, h] = lens;
    let head = part(from, u32::from_le_bytes([a, b, c, d]))?;
    let body = part(from, u32::from_le_bytes([e, f, g, h]))?;
    Ok((serde_json::from_slice(&head)?, body))
}

/// Room is made for it as it comes.
fn part(from: &mut impl Read, len: u32) -> io::Result<Vec<u8>> {
    if len as usize > FRAME_MAX {
        return Err(io::Error::other("a frame is too long"));
    }
    let mut bytes = Vec::new();
    let read = from.take(u64::from(len)).read_to_end(&mut bytes)?;
    if read < len as usize { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
}

#[cfg(any(test, feature = "fuzzing"))]
pub(in crate::server) mod fuzzing;
#[cfg(test)]
mod tests;
