//! Paths: the destinations of a peer and the state of each one: congestion window, RTO, reachability and MTU (RFC
//! 9260 sections 5.4, 6.3, 6.4, 7 and 8). [`PathSet`] chooses among them.
//!
//! | files | concern |
//! |---|---|
//! | [`set`], [`destination`], [`state`], [`settings`], [`choices`] | the paths, one path, its state and settings |
//! | [`heartbeat`], [`reachability`], [`verification`], [`silence`] | heartbeats, failure detection, fail-over |
//! | [`rto`], [`frto`], [`frto_packets`] | RTO, F-RTO |
//! | [`tlp`], [`tlp_budget`], [`single_packet`], [`window_probe`] | tail-loss probes, probes of a closed window |
//! | [`prr`], [`pacer`], [`bursts`], [`arrivals`] | recovery, pacing, bursts, full windows |
//! | [`pmtu`], [`proof`], [`control_size`], [`link`] | path MTU |
//! | [`ecn_trial`], [`path_cache`] | ECN validation, values of earlier associations |

mod arrivals;
mod bursts;
mod choices;
mod control_size;
mod destination;
mod ecn_trial;
mod frto;
mod frto_packets;
mod heartbeat;
mod link;
mod pacer;
mod path_cache;
mod pmtu;
mod proof;
mod prr;
mod reachability;
mod rto;
mod set;
mod settings;
mod silence;
mod single_packet;
mod state;
mod tlp;
mod tlp_budget;
mod verification;
mod window_probe;

pub(crate) use self::bursts::allow_train;
pub(crate) use self::control_size::{cut_max, proven_len};
pub(crate) use self::destination::{Path, PathLoss, PathSack};
pub(crate) use self::ecn_trial::EcnTrial;
pub(crate) use self::frto_packets::FrtoPackets;
pub(crate) use self::link::Link;
pub(crate) use self::path_cache::KnownPaths;
pub(crate) use self::proof::{Proof, Step};
pub(crate) use self::set::{PathSet, is_dormant, substitute};
pub(crate) use self::state::PathState;
pub(crate) use self::tlp::{defer_probe, take_repetition};
pub(crate) use self::verification::VerificationBudget;
pub(crate) use self::window_probe::on_window_probes_lost;
