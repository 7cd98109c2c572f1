//! How an association does: what the engine says of it, for the mapping of connections.

use std::time::Duration;

use strandline::{Association, Reachability};

use crate::loss_meter::LossMeter;
use crate::mapping::Measurement;
use crate::protocol::Report;

/// What this side of an association sees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Seen {
    /// The path in use answers.
    pub(crate) answers: bool,
    pub(crate) rtt: Option<Duration>,
    /// What this side sends.
    pub(crate) flow: Measurement,
}

/// Looks at an association at a time; `None` if it has ended.
pub(crate) fn look(association: &Association, meter: &mut LossMeter, at: Duration) -> Option<Seen> {
    let status = association.status()?;
    let paths = association.paths();
    let used = paths.iter().find(|path| path.in_use).or(paths.first())?;
    let loss = meter.note(at, status.stats.data_sent, status.stats.retransmissions.into());
    // What has arrived out of order is not sent again.
    let unsent = status.send_buffered.saturating_sub(status.unacknowledged_bytes as usize);
    let unsent = u32::try_from(unsent).unwrap_or(u32::MAX);
    Some(Seen {
        // A single time-out may be a loss.
        answers: used.state != Reachability::Inactive && used.error_count <= 1,
        rtt: used.srtt,
        flow: Measurement {
            loss,
            window: used.cwnd,
            packet: used.mtu,
            queued: status.in_flight.saturating_add(unsent),
        },
    })
}

/// Returns what is reported to the peer.
pub(crate) fn report(flow: &Measurement) -> Report {
    Report {
        lost_per_million: flow.loss.map(|loss| (loss * 1e6) as u32),
        window: flow.window,
        queued: flow.queued,
        packet: flow.packet,
    }
}

/// Returns what the peer has reported.
pub(crate) fn reported(report: &Report) -> Measurement {
    Measurement {
        loss: report.lost_per_million.map(|lost| f64::from(lost) / 1e6),
        window: report.window,
        packet: report.packet,
        queued: report.queued,
    }
}
