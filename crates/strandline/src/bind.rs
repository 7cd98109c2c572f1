//! Where sockets are bound.

use std::net::IpAddr;

use crate::address::Address;

/// The SCTP port of a [`Listener`](crate::Listener) or [`Endpoint`](crate::Endpoint), and the local addresses of its
/// associations.
///
/// Without addresses a socket uses all those of its stack. With addresses, only these are listed to peers; packets of
/// its associations come from them, and packets to others are answered as if nothing listened there. A stack has one
/// socket for each port, whatever its addresses.
///
/// ```
/// use strandline::{Association, Bind, Listener, Peer, Stack};
/// # use strandline::memory::Network;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Network::new();
/// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
/// // A host in three networks, which serves two of them.
/// let addresses = ["10.0.0.2".parse()?, "10.1.0.2".parse()?, "192.168.0.2".parse()?];
/// let there = Stack::builder().memory(&network, addresses)?;
/// let listener = Listener::bind(&there, Bind::port(7).at([10, 0, 0, 2]).at([10, 1, 0, 2]))?;
///
/// let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
/// let paths: Vec<_> = client.paths().iter().map(|path| path.address.ip().to_string()).collect();
/// assert_eq!(paths, ["10.0.0.2", "10.1.0.2"]);
/// assert!(Association::connect(&here, Peer::new([192, 168, 0, 2], 7)).await.is_err());
/// # drop(listener);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    port: u16,
    addresses: Vec<Address>,
}

impl Bind {
    /// A port at all addresses of the stack; 0 picks one.
    #[must_use]
    pub fn port(port: u16) -> Self {
        Self { port, addresses: Vec::new() }
    }

    /// Adds an address, which must be one of the stack's. At most 8.
    #[must_use]
    pub fn at(mut self, address: impl Into<Address>) -> Self {
        self.addresses.push(address.into());
        self
    }

    /// Returns the port, and the addresses as the engine looks them up.
    pub(crate) fn into_parts(self) -> (u16, Vec<IpAddr>) {
        (self.port, self.addresses.into_iter().map(Address::key).collect())
    }
}

impl From<u16> for Bind {
    /// A port at all addresses of the stack.
    fn from(port: u16) -> Self {
        Self::port(port)
    }
}
