#![allow(clippy::unwrap_used)]

use super::*;

fn summary(p50_ms: f64) -> Summary {
    Summary { p50_ms, ..Summary::default() }
}

fn step(held: u64, setup_ms: f64, transaction_ms: f64) -> Step {
    let cost = Cost { server_us: 0.0, client_us: 0.0 };
    Step {
        held,
        grown: Some(1000.0),
        rate_asked: None,
        rate_reached: None,
        grown_times: None,
        grown_transactions: None,
        grown_totals: None,
        swept: held,
        sweep_rate: 1.0,
        sweep_times: None,
        setup: summary(setup_ms),
        transaction: summary(transaction_ms),
        setup_cpu: cost,
        transaction_cpu: cost,
        packets_lost: 0,
        inits_shed: 0,
        memory: Memory {
            server: 5000.0,
            server_process: 700.0,
            client_process: 700.0,
            kernel: 4300.0,
            others: Some(120.0),
            kernel_items: None,
            kernel_items_missing: None,
            socket_buffers_most: 0.0,
            udp_buffers_most: 0.0,
            kernel_caches: BTreeMap::new(),
            stack: 0.0,
            stack_items: BTreeMap::new(),
        },
    }
}

fn ladder(transport: Transport, steps: Vec<Step>) -> Ladder {
    Ladder {
        transport,
        carrier: "UDP",
        shards: 1,
        message_bytes: 1,
        heartbeat_s: None,
        sender_tcp_congestion: None,
        steps,
        hold: None,
    }
}

#[test]
fn both_transports_stand_side_by_side() {
    let sctp =
        ladder(Transport::Sctp, vec![step(1, 0.05, 0.06), step(1000, 0.06, 0.06), step(9000, 0.07, 0.06)]);
    let tcp = ladder(Transport::Tcp, vec![step(1, 0.1, 0.03), step(1000, 0.03, 0.12)]);
    let mut out = Vec::new();
    print_beside_tcp(&[sctp.clone(), tcp], &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip(3)
        .map(|line| line.split([' ', '|']).filter(|word| !word.is_empty()).collect())
        .collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert_eq!(rows[0][..7], ["1", "50.0", "100.0", "0.50", "60.0", "30.0", "2.00"]);
    assert_eq!(rows[1][..7], ["1,000", "60.0", "30.0", "2.00", "60.0", "120.0", "0.50"]);
    let mut out = Vec::new();
    print_beside_tcp(&[sctp], &mut out).unwrap();
    assert!(out.is_empty(), "nothing to stand beside");
}

#[test]
fn inits_that_were_shed_are_told() {
    let mut flooded = step(1000, 0.05, 0.06);
    flooded.inits_shed = 1234;
    for (steps, expected) in [(vec![step(1, 0.05, 0.06), flooded], true), (vec![step(1, 0.05, 0.06)], false)]
    {
        let mut out = Vec::new();
        ladder(Transport::Sctp, steps).print(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.contains("1,234 INITs exceeded the limit"), expected, "{text}");
    }
}
