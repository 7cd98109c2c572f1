//! Captures of a stack's packets.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use strandline_wire::pcapng::{PcapngWriter, Record};
use tokio::time::Instant;

use crate::observe::{Direction, ObservedPacket, PacketObserver};

/// A packet observer that writes every packet of a stack to a pcapng file, for Wireshark and tshark. Pass it to
/// [`StackBuilder::observer`](crate::StackBuilder::observer).
///
/// ```
/// use std::sync::Arc;
/// use strandline::{Association, Capture, Peer, Stack};
/// # use strandline::memory::Network;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Network::new();
/// # let path = std::env::temp_dir().join(format!("strandline-doc-{}.pcapng", std::process::id()));
/// let capture = Arc::new(Capture::create(&path)?);
/// let stack = Stack::builder().observer(capture.clone()).memory(&network, ["10.0.0.1".parse()?])?;
/// let peer = Peer::new([10, 0, 0, 2], 7);
/// drop(Association::start(&stack, peer, 0, None)?);
/// tokio::task::yield_now().await;
/// capture.flush()?;
/// # std::fs::remove_file(&path)?;
/// # Ok(()) }
/// ```
pub struct Capture {
    writer: Mutex<Writer>,
    /// The start of the capture by both clocks.
    instant: Instant,
    since_1970: Duration,
}

struct Writer {
    pcapng: PcapngWriter<Box<dyn Write + Send>>,
    /// The first error; nothing is written after it.
    error: Option<io::Error>,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").finish_non_exhaustive()
    }
}

impl Capture {
    /// Creates a capture in a new file.
    ///
    /// # Errors
    /// If the file can't be created or written.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::new(BufWriter::new(File::create(path)?))
    }

    /// Creates a capture that writes to any writer.
    ///
    /// # Errors
    /// If writing the file's header fails.
    #[allow(
        clippy::disallowed_methods,
        reason = "captures carry the time of day, which nothing else here needs"
    )]
    pub fn new(out: impl Write + Send + 'static) -> io::Result<Self> {
        let pcapng = PcapngWriter::new(Box::new(out) as Box<dyn Write + Send>)?;
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let writer = Mutex::new(Writer { pcapng, error: None });
        Ok(Self { writer, instant: Instant::now(), since_1970 })
    }

    /// Writes out the buffered packets.
    ///
    /// # Errors
    /// The first error since the last call; packets from there on are missing from the capture.
    pub fn flush(&self) -> io::Result<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = writer.error.take() {
            return Err(error);
        }
        writer.pcapng.flush()
    }
}

impl PacketObserver for Capture {
    fn packet(&self, packet: &ObservedPacket<'_>) {
        let unspecified: IpAddr =
            if packet.peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        // The local encapsulation port is not known here; the registered one lets Wireshark recognize SCTP.
        let port = if packet.peer.port() == 0 { 0 } else { strandline_io::UDP_PORT };
        let local = SocketAddr::new(packet.local.unwrap_or(unspecified), port);
        let (source, destination) = match packet.direction {
            Direction::Sent => (local, packet.peer),
            Direction::Received => (packet.peer, local),
        };
        let timestamp = self.since_1970 + packet.at.saturating_duration_since(self.instant);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.error.is_none() {
            let record = Record { timestamp, source, destination, packet: packet.bytes, comment: "" };
            writer.error = writer.pcapng.write(&record).err();
        }
    }
}
