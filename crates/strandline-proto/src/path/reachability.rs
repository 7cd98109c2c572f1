//! Path failure detection: errors and answers (RFC 9260 section 8.2), and heartbeats (sections 5.4 and 8.3).

use super::destination::Path;
use super::heartbeat::Pace;
use super::state::PathState;
use crate::config::AssociationConfig;
use crate::event::PathChange;
use crate::time::Time;

/// The effects of a HEARTBEAT that was not answered within the RTO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeartbeatLoss {
    pub(crate) change: Option<PathChange>,
    /// True if the address is confirmed. Only then does the association's error count rise, and only if the path is
    /// the one in use for data (sections 5.4 and 8.1).
    pub(crate) confirmed: bool,
}

/// The effects of an answered HEARTBEAT or PMTU probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeartbeatAnswer {
    pub(crate) change: Option<PathChange>,
    /// True if the PMTU rose.
    pub(crate) mtu_rose: bool,
}

impl Path {
    /// Confirms that the address is the peer's: the user named it, or the peer answered from it (section 5.4 rules 1
    /// and 2).
    pub(crate) fn confirm(&mut self) -> Option<PathChange> {
        let change = (self.state == PathState::Unconfirmed).then_some(PathChange::Confirmed);
        if change.is_some() {
            self.state = PathState::Active;
            self.error_count = 0;
        }
        change
    }

    /// Records that the peer acknowledged something sent on this path (section 8.2). Does not confirm an address, nor
    /// undo that it was given up.
    pub(crate) fn on_answer(&mut self) -> Option<PathChange> {
        match self.state {
            PathState::Unconfirmed => return None,
            PathState::Active | PathState::PotentiallyFailed => {}
            PathState::Inactive | PathState::Ambiguous => self.pmtu.on_path_returned(),
        }
        self.error_count = 0;
        let before = core::mem::replace(&mut self.state, PathState::Active);
        (before != PathState::Active).then_some(PathChange::Active)
    }

    /// Records that something sent on this path, other than a HEARTBEAT, was not answered in time (section 8.2). An
    /// unconfirmed address is judged by its HEARTBEATs alone (section 5.4).
    pub(crate) fn on_error(&mut self, config: &AssociationConfig) -> Option<PathChange> {
        if self.state == PathState::Unconfirmed { None } else { count_error(self, config) }
    }

    /// Makes the path inactive at once, because it is unusable or nothing at the address speaks SCTP.
    pub(crate) fn fail(&mut self, config: &AssociationConfig) -> Option<PathChange> {
        self.error_count = config.path_retrans_max.saturating_add(1);
        let change = (!self.state.is_inactive()).then_some(PathChange::Inactive);
        self.state = PathState::Inactive;
        change
    }

    /// Gives up an unconfirmed address that is not the peer's. It gets no more HEARTBEATs.
    pub(crate) fn give_up(&mut self, config: &AssociationConfig) -> Option<PathChange> {
        let known = self.error_count > config.path_retrans_max;
        self.error_count = config.path_retrans_max.saturating_add(1);
        self.heartbeat.stop();
        (!known).then_some(PathChange::Inactive)
    }

    /// True for an unconfirmed address that did not answer Path.Max.Retrans HEARTBEATs, or that belongs to another
    /// host.
    pub(crate) fn is_given_up(&self, config: &AssociationConfig) -> bool {
        self.state == PathState::Unconfirmed && self.error_count > config.path_retrans_max
    }

    /// Probes an address again that had been given up.
    pub(crate) fn verify_again(&mut self, now: Time, random: u32, config: &AssociationConfig) {
        self.error_count = 0;
        self.start_heartbeats(now, random, config);
    }

    /// Makes an active path with too many errors potentially failed, and probes it at once (RFC 7829 section 3.2).
    /// Called after [`on_error`](Self::on_error) if there are other paths.
    pub(crate) fn on_repeated_errors(&mut self, config: &AssociationConfig) -> Option<PathChange> {
        let failing = config.potentially_failed_retrans_max.is_some_and(|max| self.error_count > max);
        if !failing || self.state != PathState::Active {
            return None;
        }
        self.state = PathState::PotentiallyFailed;
        self.heartbeat.hurry();
        Some(PathChange::PotentiallyFailed)
    }

    /// Starts heartbeats when the association is established. `random` is any number and determines the jitter. An
    /// unconfirmed address is probed at once.
    pub(crate) fn start_heartbeats(&mut self, now: Time, random: u32, config: &AssociationConfig) {
        let pace = self.pace(config);
        self.heartbeat.start(now, pace, self.rto.rto(), random);
    }

    /// True if a HEARTBEAT should be sent. Build it with a nonce and call
    /// [`on_heartbeat_sent`](Self::on_heartbeat_sent), or [defer](super::heartbeat::Heartbeat::defer) it.
    pub(crate) fn heartbeat_due(&mut self, now: Time, random: u32, config: &AssociationConfig) -> bool {
        let pace = self.pace(config);
        self.heartbeat.is_due(now, self.last_sent, pace, self.rto.rto(), random)
    }

    /// Records that a HEARTBEAT with the random `nonce` was sent.
    pub(crate) fn on_heartbeat_sent(
        &mut self,
        now: Time,
        nonce: u64,
        random: u32,
        config: &AssociationConfig,
    ) {
        let pace = self.pace(config);
        self.heartbeat.on_sent(now, nonce, pace, self.rto.rto(), random);
    }

    /// Handles the timers of HEARTBEATs and PMTU probes. Call it when [`next_deadline`](Self::next_deadline) has
    /// passed. An unanswered HEARTBEAT counts as an error and backs the RTO off. A lost PMTU probe is no error.
    pub(crate) fn on_probe_timers(
        &mut self,
        now: Time,
        random: u32,
        config: &AssociationConfig,
    ) -> Option<HeartbeatLoss> {
        let rto = self.rto.rto();
        self.pmtu.on_timer(now, rto);
        if !self.heartbeat.on_expired(now, rto) {
            return None;
        }
        self.rto.back_off(config);
        let change = count_error(self, config);
        self.heartbeat.schedule_after_loss(now, self.pace(config), self.rto.rto(), random);
        Some(HeartbeatLoss { change, confirmed: self.state != PathState::Unconfirmed })
    }

    /// Processes a HEARTBEAT ACK with `nonce`. Returns `None` if it answers nothing that was recently sent on this
    /// path.
    pub(crate) fn on_heartbeat_ack(
        &mut self,
        now: Time,
        nonce: u64,
        random: u32,
        config: &AssociationConfig,
    ) -> Option<HeartbeatAnswer> {
        if let Some(sent_at) = self.heartbeat.on_ack(nonce) {
            self.on_rtt(now, sent_at, config);
            let confirmed = self.confirm();
            let change = self.on_answer().or(confirmed);
            let pace = self.pace(config);
            self.heartbeat.schedule(sent_at, pace, self.rto.rto(), random);
            return Some(HeartbeatAnswer { change, mtu_rose: false });
        }
        let mtu = self.pmtu.mtu();
        let sent_at = self.pmtu.on_ack(now, nonce)?;
        self.on_rtt(now, sent_at, config);
        let mtu_rose = self.pmtu.mtu() > mtu;
        if mtu_rose {
            // Packets acknowledged before were shorter than those that they would clock (RFC 9260 section 6.1 rule D).
            self.forget_acked();
        }
        self.on_mtu();
        Some(HeartbeatAnswer { change: self.on_answer(), mtu_rose })
    }

    fn pace(&self, config: &AssociationConfig) -> Pace {
        if self.state == PathState::Unconfirmed {
            return if self.is_given_up(config) { Pace::Off } else { Pace::EachRto };
        }
        match config.heartbeat_interval {
            Some(_) if self.state == PathState::PotentiallyFailed => Pace::EachRto,
            Some(interval) => Pace::Interval(interval),
            None => Pace::Off,
        }
    }
}

/// Counts an error. The count stops once the path is inactive (RFC 9260 section 8.3).
fn count_error(path: &mut Path, config: &AssociationConfig) -> Option<PathChange> {
    if path.state == PathState::Ambiguous {
        path.state = PathState::Inactive;
    }
    if path.error_count > config.path_retrans_max || path.state == PathState::Inactive {
        return None;
    }
    path.error_count = path.error_count.saturating_add(1);
    let failed = path.error_count > config.path_retrans_max;
    if failed && path.state != PathState::Unconfirmed {
        path.state = PathState::Inactive;
    }
    failed.then_some(PathChange::Inactive)
}
