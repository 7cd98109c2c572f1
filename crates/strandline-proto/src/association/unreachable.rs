//! Addresses at which nothing answers as the peer would: ICMP port or protocol unreachable, no route, an address of
//! this host. With another usable address this is an error of the path, otherwise one of the association (RFC 9260
//! sections 5.4, 8.2 and 10).

use core::net::IpAddr;
use std::sync::Arc;

use super::context::EndpointContext;
use super::diagnostics::log_unreachable;
use super::{Association, State};
use crate::event::CloseReason;
use crate::path::{Path, PathState};
use crate::path_index::PathIndex;
use crate::time::Time;

impl Association {
    /// Handles an address at which nothing speaks SCTP (rule ICMP8). If it was the last one, the association ends, as
    /// by an ABORT.
    pub(crate) fn on_unreachable(&mut self, cx: &mut EndpointContext, now: Time, index: PathIndex) {
        log_unreachable(self, index, "protocol or port unreachable (ICMP)");
        if !self.leave_path(cx, now, index) {
            self.end(cx, now, CloseReason::Unreachable);
        }
    }

    /// Handles an address that the system cannot send to. During set-up this ends the association if it was the last
    /// address, since no answer can arrive. Afterwards the fault may be temporary, such as an unplugged cable.
    pub(crate) fn on_no_route(&mut self, cx: &mut EndpointContext, now: Time, index: PathIndex) {
        log_unreachable(self, index, "no route");
        if self.leave_path(cx, now, index) {
            return;
        }
        if self.state.in_setup() {
            self.end(cx, now, CloseReason::NoRoute);
        } else {
            self.count_path_error(cx, index);
        }
    }

    /// Handles a report of a router that a destination is unreachable: an error of the path (rule ICMP9), because the
    /// fault may be temporary. During set-up the next address is tried at once.
    pub(crate) fn on_host_unreachable(&mut self, cx: &mut EndpointContext, now: Time, index: PathIndex) {
        log_unreachable(self, index, "host or network unreachable (ICMP)");
        self.count_path_error(cx, index);
        if self.state.in_setup() && index == self.control_path {
            let errors = self.paths.get(index).error_count;
            let other =
                self.paths.alternate(index).filter(|other| self.paths.get(*other).error_count < errors);
            if let Some(other) = other {
                self.set_up_over(cx, now, other);
            }
        }
    }

    /// Handles a packet of this association that came back: the address belongs to this host, and nothing more is
    /// sent to it if there is another.
    pub(crate) fn on_looped(&mut self, cx: &mut EndpointContext, now: Time, address: IpAddr) {
        if let Some(index) = self.paths.by_address(address) {
            log_unreachable(self, index, "an address of this host");
            let _ = self.leave_path(cx, now, index);
        }
    }

    /// Handles an ABORT with the T bit: whoever has the address does not know the association. If it was never
    /// confirmed, this shows only that it is not the peer's: another host has it here, such as one of many with the
    /// same private address, or another process of this host (`from_here`). Returns true if it was such an address,
    /// which is given up if there is another. A peer that has lost its state answers from such a one, too: without a
    /// confirmed one that works the ABORT counts.
    pub(crate) fn refuse_address(
        &mut self,
        cx: &mut EndpointContext,
        address: IpAddr,
        from_here: bool,
    ) -> bool {
        let Some(index) = self.paths.by_address(address) else { return false };
        let unconfirmed = self.paths.get(index).state == PathState::Unconfirmed;
        let refuses = unconfirmed && (from_here || self.paths.usable_other_than(index));
        if refuses {
            log_unreachable(self, index, "an ABORT of a host without the association");
            let _ = give_up_address(self, cx, index);
        }
        refuses
    }

    fn count_path_error(&mut self, cx: &mut EndpointContext, index: PathIndex) {
        let config = Arc::clone(&self.config);
        let change = self.paths.get_mut(index).on_error(&config);
        self.on_path_error(cx, index, change);
    }

    /// Abandons a path. Returns false without a change if it is the last one that may work.
    fn leave_path(&mut self, cx: &mut EndpointContext, now: Time, index: PathIndex) -> bool {
        match self.paths.get(index).state {
            PathState::Unconfirmed => return give_up_address(self, cx, index),
            _ if self.state.in_setup() => return self.leave_path_in_setup(cx, now, index),
            PathState::Inactive | PathState::Ambiguous => {
                let config = Arc::clone(&self.config);
                let _ = self.paths.get_mut(index).fail(&config);
                return self.paths.confirmed_other_than(index);
            }
            PathState::Active | PathState::PotentiallyFailed => {
                if !self.paths.usable_other_than(index) {
                    return false;
                }
                let config = Arc::clone(&self.config);
                let change = self.paths.get_mut(index).fail(&config);
                self.on_path_error(cx, index, change);
                self.send_again(index);
                let other = self.paths.data_path().unwrap_or(index);
                self.move_control(cx, now, index, other);
            }
        }
        true
    }

    /// Moves control chunks off a path. A SHUTDOWN or SHUTDOWN ACK that waits for its answer is sent again at once.
    pub(super) fn move_control(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        from: PathIndex,
        to: PathIndex,
    ) {
        if self.control_path != from {
            return;
        }
        self.control_path = to;
        match self.state {
            State::ShutdownSent { .. } => self.send_shutdown(cx, now),
            State::ShutdownAckSent => self.send_shutdown_ack(cx, now),
            _ => {}
        }
    }

    /// During set-up, tries the application's addresses in turn; a refused one is not tried again.
    fn leave_path_in_setup(&mut self, cx: &mut EndpointContext, now: Time, index: PathIndex) -> bool {
        let Some(other) = self.paths.active_other_than(index) else { return false };
        let config = Arc::clone(&self.config);
        let _ = self.paths.get_mut(index).fail(&config);
        if index == self.control_path {
            self.set_up_over(cx, now, other);
        }
        true
    }

    /// Sends INIT or COOKIE ECHO again at once, to another address. T1 keeps running, so that no number of ICMP
    /// messages prolongs the set-up.
    fn set_up_over(&mut self, cx: &mut EndpointContext, now: Time, index: PathIndex) {
        self.control_path = index;
        let deadline = self.deadlines.control;
        match &mut self.state {
            State::CookieWait(_) => {
                self.send_init(cx, now);
                self.deadlines.control = deadline;
            }
            State::CookieEchoed(setup) => {
                setup.echoes = 0;
                self.retract_cookie_data();
                self.flags.cookie_echo_due = true;
            }
            _ => {}
        }
    }
}

/// Gives up an unconfirmed address. Returns false without a change if it is the last one that may be the peer's: it is
/// probed until the association ends.
fn give_up_address(association: &mut Association, cx: &mut EndpointContext, index: PathIndex) -> bool {
    let config = Arc::clone(&association.config);
    let may_be_its = |(other, path): (PathIndex, &Path)| other != index && !path.is_given_up(&config);
    if !association.paths.iter().any(may_be_its) {
        return false;
    }
    if let Some(change) = association.paths.get_mut(index).give_up(&config) {
        association.on_path_change(cx, index, change);
    }
    true
}
