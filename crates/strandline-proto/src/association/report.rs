//! Snapshots for the application: STATUS (RFC 9260 section 11.1.8) and memory.

use core::mem::size_of;

use super::buffers::{Pressure, send_buffer};
use super::features::Extensions;
use super::{Association, Flags, State, adaptation};
use crate::congestion::Controller;
use crate::number::Tsn;
use crate::path::PathState;
use crate::path_index::PathIndex;
use crate::stats::{AgreedExtensions, MemoryReport, PathStatus, Reachability, SentAgain, Status};
use crate::zone;

impl Association {
    /// STATUS.
    pub(crate) fn status(&self, pressure: Pressure) -> Status {
        Status {
            state: self.state.public(),
            local_port: self.local_port,
            peer_port: self.peer_port,
            local_tag: self.local_tag,
            peer_tag: self.peer_tag,
            outbound_streams: self.outbound.streams(),
            inbound_streams: self.inbound.streams(),
            primary: zone::outward(self.paths.get(self.paths.primary()).remote),
            peer_rwnd: self.outbound.peer_rwnd(),
            a_rwnd: self.inbound.a_rwnd(),
            send_buffered: self.outbound.buffered_bytes(),
            in_flight: self.outbound.outstanding_bytes(),
            unacknowledged_bytes: self.outbound.unacknowledged_bytes(),
            unacknowledged_messages: self.outbound.unacknowledged_messages(),
            pending_messages: self.outbound.pending_messages(),
            in_fast_recovery: self.outbound.in_fast_recovery(),
            receive_buffered: self.inbound.buffered_bytes(),
            receive_buffer: self.inbound.receive_buffer(),
            send_buffer: send_buffer(&self.config, &self.paths, self.outbound.peer_rwnd(), pressure),
            accepts_zero_checksum: self.accepts_zero_checksum(),
            sends_zero_checksum: self.features.zero_checksum.by_peer,
            extensions: AgreedExtensions {
                adaptation_layer: adaptation::code_point(self),
                ecn: self.ecn.as_ref().is_some_and(|ecn| ecn.agreed),
                stream_reconfiguration: self.features.has(Extensions::RE_CONFIG),
                partial_reliability: self.features.skips(),
                dynamic_addresses: self.features.has(Extensions::DYNAMIC_ADDRESSES),
                authentication: self.features.has(Extensions::AUTHENTICATION),
                interleaving: self.features.has(Extensions::INTERLEAVING),
                nr_sack: self.features.has(Extensions::NR_SACK),
                stream_credit: self.features.has(Extensions::STREAM_CREDIT),
            },
            marks_answered: self.ecn.as_ref().map_or(0, |ecn| ecn.answered),
            error_count: self.errors.total.max(self.errors.data_timeouts),
            stats: self.stats,
        }
    }

    /// Returns the state of every path.
    pub(crate) fn path_status(&self) -> Vec<PathStatus> {
        let (primary, in_use) = (self.paths.primary(), self.paths.data_path());
        let one = |(index, path): (PathIndex, &crate::path::Path)| PathStatus {
            address: zone::outward(path.remote),
            state: match path.state {
                PathState::Unconfirmed => Reachability::Unconfirmed,
                PathState::Active => Reachability::Active,
                PathState::PotentiallyFailed => Reachability::PotentiallyFailed,
                PathState::Inactive | PathState::Ambiguous => Reachability::Inactive,
            },
            primary: index == primary,
            in_use: Some(index) == in_use,
            congestion: path.congestion.algorithm().name(),
            cwnd: path.congestion.window(),
            recovery_window: path.is_recovering().then(|| path.window()),
            ssthresh: path.congestion.slow_start_threshold(),
            flight: path.flight,
            pacing_rate: path.pacing_rate(),
            srtt: path.rto.srtt(),
            rttvar: path.rto.rttvar(),
            rto: path.rto.rto(),
            mtu: path.pmtu.mtu(),
            error_count: path.error_count,
            timeouts: path.timeouts,
            marks_reported: self.ecn.as_ref().map_or(0, |ecn| ecn.reported(index)),
        };
        self.paths.iter().map(one).collect()
    }

    /// Returns why an outstanding chunk was retransmitted.
    pub(crate) fn sent_again(&self, tsn: Tsn) -> Option<SentAgain> {
        self.outbound.sent_again(tsn)
    }

    /// Returns the memory of the association itself; the endpoint adds its tables.
    pub(crate) fn memory(&self) -> MemoryReport {
        let setup = match &self.state {
            State::CookieWait(setup) | State::CookieEchoed(setup) => {
                size_of::<super::state::Setup>() + setup.cookie.capacity() + setup.report.capacity()
            }
            _ => 0,
        };
        let inbound = self.inbound.memory();
        let inline = size_of::<crate::inbound::Inbound>()
            + size_of::<crate::outbound::Outbound>()
            + size_of::<crate::path::PathSet>();
        let items = vec![
            ("association: state, tags, timers, counters", size_of::<Self>() - inline),
            ("paths: the first, with window, RTO, heartbeat, MTU", size_of::<crate::path::PathSet>()),
            ("paths: further ones, and what controllers hold", self.paths.heap_bytes()),
            ("ECN: what was marked, trials of paths", self.ecn.as_ref().map_or(0, |ecn| ecn.heap_bytes())),
            (
                "authentication: keys; what was abandoned; whether long SACKs arrive",
                self.extras.as_ref().map_or(0, |extras| extras.heap_bytes()),
            ),
            ("inbound: cumulative TSN, window, SACK state", size_of::<crate::inbound::Inbound>()),
            ("inbound: gap map, duplicates", inbound.tsn_map),
            ("inbound: records of fragments, streams, messages", inbound.records()),
            ("inbound: user data", inbound.payload),
            ("outbound: TSN, window, recovery state", size_of::<crate::outbound::Outbound>()),
            ("outbound: queues, outstanding, streams", self.outbound.heap().total()),
            ("set-up: cookie", setup),
            (
                "reconfiguration of streams: requests",
                self.reconfig.as_ref().map_or(0, |reconfig| reconfig.heap_bytes()),
            ),
        ];
        MemoryReport { items }
    }

    pub(crate) fn flags(&self) -> Flags {
        self.flags
    }

    pub(crate) fn flags_mut(&mut self) -> &mut Flags {
        &mut self.flags
    }
}
