//! Random sequences of path events.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Op {
    Send { len: u16, bytes: u32, first: bool },
    Sack { acked: u32, drop: u32, ago: Option<u32>, lowest: bool, recovery: bool },
    Timeout(bool),
    WindowProbe,
    Lost(u32),
    FastRetransmit,
    Burst,
    EndBurst,
    TooBig(u32),
    HeartbeatAck(u64),
    Sleep,
    Pass(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (any::<u16>(), any::<u32>(), any::<bool>()).prop_map(|(len, bytes, first)| Op::Send { len, bytes, first }),
        4 => (any::<u32>(), any::<u32>(), any::<Option<u32>>(), any::<bool>(), any::<bool>())
            .prop_map(|(acked, drop, ago, lowest, recovery)| Op::Sack { acked, drop, ago, lowest, recovery }),
        1 => any::<bool>().prop_map(Op::Timeout),
        1 => Just(Op::WindowProbe),
        1 => any::<u32>().prop_map(Op::Lost),
        1 => Just(Op::FastRetransmit),
        2 => Just(Op::Burst),
        1 => Just(Op::EndBurst),
        1 => any::<u32>().prop_map(Op::TooBig),
        2 => (0_u64..20).prop_map(Op::HeartbeatAck),
        4 => Just(Op::Sleep),
        2 => any::<u32>().prop_map(Op::Pass),
    ]
}

fn apply(path: &mut Path, now: &mut Time, nonce: &mut u64, config: &AssociationConfig, op: &Op) {
    match *op {
        Op::Send { len, bytes, first } => path.on_data_sent(*now, usize::from(len), bytes, first, false),
        Op::Sack { acked, drop, ago, lowest, recovery } => {
            let ago = ago.map(|nanos| Time::from_nanos(now.as_nanos().saturating_sub(u64::from(nanos))));
            let sack = PathSack {
                flight_drop: drop,
                rtt_sent_at: ago,
                lowest_acked: lowest,
                in_fast_recovery: recovery,
                ..sack(acked)
            };
            path.on_sack(*now, &sack, config);
        }
        Op::Timeout(full) => {
            path.on_rtx_timeout(*now, if full { 9000 } else { 0 }, config);
        }
        Op::WindowProbe => path.on_window_probe_timeout(*now, config),
        Op::Lost(bytes) => path.on_lost(bytes),
        Op::FastRetransmit => path.on_fast_retransmit(*now),
        Op::Burst => path.allow_burst(*now, config),
        Op::EndBurst => path.end_burst(),
        Op::TooBig(mtu) => {
            path.on_packet_too_big(*now, mtu);
        }
        Op::HeartbeatAck(nonce) => {
            path.on_heartbeat_ack(*now, nonce, MIDDLE, config);
        }
        Op::Sleep => {
            if path.next_deadline() != Time::MAX {
                *now = (*now).max(path.next_deadline());
            }
        }
        Op::Pass(micros) => *now += Duration::from_micros(u64::from(micros)),
    }
    if path.rtx_expired(*now) {
        path.on_rtx_timeout(*now, 9000, config);
    }
    if path.probe_due(*now) {
        path.on_probe(*now);
    }
    path.on_probe_timers(*now, MIDDLE, config);
    *nonce += 1;
    if path.heartbeat_due(*now, MIDDLE, config) {
        path.on_heartbeat_sent(*now, *nonce, MIDDLE, config);
    } else if path.mtu_probe_due(*now).is_some() {
        path.pmtu.on_probe_sent(*now, *nonce);
    }
}

proptest! {
    #[test]
    fn any_sequence_keeps_the_bounds_and_makes_progress(
        interval in proptest::option::of(1_u64..60_000),
        confirmed: bool,
        ops in proptest::collection::vec(op(), 0..100),
    ) {
        let config = AssociationConfig {
            heartbeat_interval: interval.map(ms),
            path_mtu_initial: 1280,
            ..AssociationConfig::default()
        };
        let mut path = if confirmed { active() } else { unconfirmed() };
        let (mut now, mut nonce) = (Time::ZERO, 0);
        path.start_heartbeats(now, MIDDLE, &config);
        for op in ops {
            apply(&mut path, &mut now, &mut nonce, &config, &op);
            prop_assert!(path.next_deadline() > now, "what was due is done: {op:?}");
            prop_assert!(path.congestion.window() >= path.data_chunk_len_max());
            prop_assert!(path.rto.rto() >= config.rto_min && path.rto.rto() <= config.rto_max);
            prop_assert!(path.error_count <= config.path_retrans_max + 1);
            prop_assert!((path.state == PathState::Inactive) <= (path.error_count > config.path_retrans_max));
        }
    }
}
