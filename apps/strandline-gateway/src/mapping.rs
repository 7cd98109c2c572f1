//! Whether a connection becomes a stream, or a direct TCP connection: values in, a decision and its reason out. No I/O.
//!
//! docs/gateway.md, section Mapping, has the policy in the order in which [`decide`] applies it.

use std::time::Duration;

use serde::Deserialize;

/// Loss rates below this do not limit a window.
const LOSS_MIN: f64 = 0.001;
/// A window counts as limited by loss up to this many times sqrt(1.5 / p) packets, the window of TCP Reno at
/// loss rate p (Mathis et al., 1997).
const LOSS_WINDOW_FACTOR: f64 = 2.0;
/// A direct connection counts as nearer if the RTT to the gateway is more than this many times the direct
/// RTT, and at least [`NEARER_MIN`] longer. Directly, two round trips pass until the answer: one for the
/// set-up.
const NEARER_FACTOR: u32 = 2;
const NEARER_MIN: Duration = Duration::from_millis(2);
/// Direct connections are faster if they have moved this many times the bytes per second.
const FASTER_FACTOR: f64 = 2.0;

/// What a rule, or a peer, says of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Map {
    /// [`decide`] chooses.
    Auto,
    /// A stream whenever there is an association.
    Always,
    /// Straight over TCP.
    Never,
}

/// What is to be decided, and what is known.
#[derive(Debug, Clone)]
pub(crate) struct Inputs {
    pub(crate) map: Map,
    /// Connections may go directly while there is no association.
    pub(crate) has_fallback: bool,
    /// The destination is an address that may be reached from here, and means the same host.
    pub(crate) is_direct: bool,
    /// The destination is an address of a gateway's own host or link, which is another host here than there,
    /// and no rule lists it. It is never connected to from here: without a stream the connection fails.
    pub(crate) is_special: bool,
    pub(crate) association: State,
    pub(crate) direct: Direct,
}

/// The association with the peer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum State {
    /// The first attempt to set it up is under way, since this time; or one begins after it was not needed for a while.
    Beginning(Duration),
    /// The last attempt failed, or the association has broken.
    Gone,
    Up(Health),
}

/// The state of an established association.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Health {
    /// True if the path in use is answered.
    pub(crate) answers: bool,
    /// Smoothed round-trip time to the far gateway.
    pub(crate) rtt: Option<Duration>,
    /// What this side sends, and what the peer does, if it says so.
    pub(crate) up: Measurement,
    pub(crate) down: Option<Measurement>,
    /// Number of associations with the peer, and its maximum.
    pub(crate) contexts: u32,
    pub(crate) contexts_max: u32,
}

/// One direction of an association.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Measurement {
    /// Share of packets that were lost lately; `None` if too few were sent.
    pub(crate) loss: Option<f64>,
    /// Congestion window in bytes.
    pub(crate) window: u32,
    /// Size of a packet in bytes.
    pub(crate) packet: u16,
    /// Bytes in flight, and those that wait to be sent.
    pub(crate) queued: u32,
}

/// What is known of direct connections to the network of the destination.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Direct {
    /// The last one failed recently, so none is tried.
    pub(crate) has_failed: bool,
    /// Round-trip time of the handshake, or as the kernel knows it.
    pub(crate) rtt: Option<Duration>,
    /// Highest recent rate in bytes per second.
    pub(crate) rate: Option<f64>,
}

/// Where a connection goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Route {
    /// A stream; it waits for the association if there is none.
    Stream,
    /// Straight over TCP.
    Direct,
    /// By whichever of the two is there first.
    Race,
}

impl Route {
    /// Returns the word for logs and metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Direct => "direct",
            Self::Race => "race",
        }
    }
}

/// A decision and its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Decision {
    pub(crate) route: Route,
    /// The word for logs and metrics.
    pub(crate) reason: &'static str,
    /// Another association with the peer would help.
    pub(crate) grow: bool,
}

impl Decision {
    const fn new(route: Route, reason: &'static str) -> Self {
        Self { route, reason, grow: false }
    }
}

/// Decides where a connection goes.
pub(crate) fn decide(question: &Inputs) -> Decision {
    let stream = |reason| Decision::new(Route::Stream, reason);
    let direct = |reason| Decision::new(Route::Direct, reason);
    if question.map == Map::Never {
        return direct("rule");
    }
    let health = match question.association {
        State::Up(health) => health,
        _ if !question.has_fallback => return stream("no_fallback"),
        _ if question.is_special => return stream("not_reachable"),
        State::Beginning(_) => return Decision::new(Route::Race, "first_set_up"),
        State::Gone => return direct("no_association"),
    };
    if question.map == Map::Always {
        return stream("rule");
    }
    let limited = [Some(health.up), health.down].into_iter().flatten().find(Measurement::is_limited_by_loss);
    if limited.is_some() && health.contexts < health.contexts_max {
        return Decision { grow: true, ..stream("more_contexts") };
    }
    if !question.is_direct {
        return stream("not_reachable");
    }
    if question.direct.has_failed {
        return stream("direct_failed");
    }
    if !health.answers {
        return direct("path_silent");
    }
    if let (Some(rtt), Some(other)) = (health.rtt, question.direct.rtt)
        && rtt > other * NEARER_FACTOR
        && rtt - other >= NEARER_MIN
    {
        return direct("nearer");
    }
    let full = [Some(health.up), health.down].into_iter().flatten().find(Measurement::is_full);
    let Some(flow) = limited.or(full) else { return stream("open_window") };
    let rate = health.rtt.map(|rtt| flow.rate(rtt) * f64::from(health.contexts.max(1)));
    match (rate, question.direct.rate) {
        (Some(rate), Some(other)) if other > rate * FASTER_FACTOR => direct("faster"),
        // A direct connection is known to be slower than the whole association.
        (Some(rate), Some(other)) if limited.is_some() && other * FASTER_FACTOR < rate => stream("slower"),
        _ if limited.is_some() => direct("small_window"),
        _ => stream("open_window"),
    }
}

impl Measurement {
    /// True if more data is queued than the window holds.
    fn is_full(&self) -> bool {
        self.queued > self.window
    }

    /// True if losses limit the window and data waits for it, so that another association would carry more.
    fn is_limited_by_loss(&self) -> bool {
        let Some(loss) = self.loss.filter(|loss| *loss >= LOSS_MIN) else { return false };
        let packets = f64::from(self.window) / f64::from(self.packet.max(1));
        self.is_full() && packets <= LOSS_WINDOW_FACTOR * (1.5 / loss).sqrt()
    }

    /// Bytes per second that the window allows.
    fn rate(&self, rtt: Duration) -> f64 {
        f64::from(self.window) / rtt.as_secs_f64().max(1e-6)
    }
}

#[cfg(test)]
mod tests;
