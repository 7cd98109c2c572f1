//! What is kept of the topmost Via of a message, so that it is parsed once.

use core::net::IpAddr;

use super::header::params::Span;
use super::header::transport::Transport;
use super::uri::host::Host;

/// The topmost Via of a message, parsed with it: who handles a message needs it more than once. Texts are kept as their
/// places in the message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TopVia {
    pub(crate) transport: Transport<'static>,
    /// The sender. If it is a name, `name` says where it stands.
    pub(crate) host: Host<'static>,
    pub(crate) name: Span,
    pub(crate) port: Option<u16>,
    /// All parameters.
    pub(crate) params: Span,
    pub(crate) branch: Option<Span>,
    /// `received`, with its semicolon, and what it says.
    pub(crate) received: Option<(Span, IpAddr)>,
    /// `rport`, with its semicolon, and what it says.
    pub(crate) rport: Option<(Span, Option<u16>)>,
    pub(crate) oc: bool,
    pub(crate) alias: bool,
    /// Where the next value in its line starts, or the line ends.
    pub(crate) after: usize,
}
