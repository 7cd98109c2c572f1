//! Log events for whoever runs or debugs an endpoint, by `tracing`. [docs/diagnostics.md] lists them.
//!
//! Where nothing is logged, an event costs the comparison in [`wants`], and a packet one. What an event needs is
//! computed behind that comparison, in functions that are not inlined. Spans are created with their events, because an
//! association has more packets than events.
//!
//! No event is above debug: a peer causes them at will. Content of packets is shown by
//! [`strandline_wire::print`], which escapes it.
//!
//! [docs/diagnostics.md]: https://github.com/strandline/strandline/blob/main/docs/diagnostics.md

use tracing::Level;
use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};

/// Set-up, states and the end of associations.
pub(crate) const ASSOCIATION: &str = "strandline_proto::association";
/// States, time-outs and sizes of paths.
pub(crate) const PATH: &str = "strandline_proto::path";
/// Losses and recoveries.
pub(crate) const LOSS: &str = "strandline_proto::loss";
/// Packets that are sent, received or discarded.
pub(crate) const PACKET: &str = "strandline_proto::packet";

/// True if a subscriber may want events of this level.
#[inline(always)]
pub(crate) fn wants(level: Level) -> bool {
    level <= STATIC_MAX_LEVEL && level <= LevelFilter::current()
}
