//! The topmost Via of a message, kept so that it is parsed only once.

use core::net::IpAddr;

use super::cursor::Span;
use super::transport::Transport;
use super::uri::host::Host;

/// The topmost Via, parsed together with its message because handling a message needs it more than once.
/// Texts are kept as positions in the message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TopVia {
    pub(crate) transport: Transport<'static>,
    /// The sender. If it is a name, `name` holds its position.
    pub(crate) host: Host<'static>,
    pub(crate) name: Span,
    pub(crate) port: Option<u16>,
    /// The range of all parameters.
    pub(crate) params: Span,
    pub(crate) branch: Option<Span>,
    /// `received`: the range of the parameter, with its semicolon, and its value.
    pub(crate) received: Option<(Span, IpAddr)>,
    /// `rport`: the range of the parameter, with its semicolon, and its value.
    pub(crate) rport: Option<(Span, Option<u16>)>,
    pub(crate) oc: bool,
    pub(crate) alias: bool,
    /// The start of the next value in the line, or the end of the line.
    pub(crate) after: usize,
}
