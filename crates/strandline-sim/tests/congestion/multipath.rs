//! Several paths at once (draft-tuexen-tsvwg-sctp-multipath): what two paths carry together, beside the
//! better one alone.

use core::time::Duration;
use std::sync::Arc;

use strandline_netem::{Change, LinkConfig, Loss};
use strandline_proto::config::{AssociationConfig, EndpointConfig, ExtensionsConfig, Multipath};
use strandline_proto::congestion::Algorithm;
use strandline_proto::event::{AssociationId, SendInfo};
use strandline_sim::pair::{Pair, Side};

use super::{link, ms};

/// An association over two paths.
struct TwoPaths {
    pair: Pair,
    a: AssociationId,
    b: AssociationId,
    received: usize,
    unordered: bool,
}

impl TwoPaths {
    /// Waits until both paths are confirmed, and makes one of them the primary path.
    fn new(association: &AssociationConfig, links: &[LinkConfig; 2], primary: usize) -> Self {
        let host = |last: u8| EndpointConfig {
            association: Arc::new(association.clone()),
            local_addresses: vec![[10, 0, last, 1].into(), [10, 1, last, 1].into()],
            ..EndpointConfig::default()
        };
        let mut pair = Pair::new(host(0), host(1), LinkConfig::default());
        for (path, link) in links.iter().enumerate() {
            let (a, b) = (pair.addresses(Side::A)[path].ip(), pair.addresses(Side::B)[path].ip());
            pair.network.link(a, b).change(Change::Config(link.clone()));
            pair.network.link(b, a).change(Change::Config(LinkConfig { loss: Loss::None, ..link.clone() }));
        }
        let (a, b) = pair.connect();
        pair.run_for(ms(1000));
        let address = pair.addresses(Side::B)[primary].ip();
        pair.a.endpoint.set_primary(pair.now, a, address).unwrap();
        Self { pair, a, b, received: 0, unordered: false }
    }

    /// Sends up to `bytes` more, as fast as the send buffer takes them. Returns how long it took until all
    /// had arrived, or `limit`.
    fn send(&mut self, bytes: usize, limit: Duration) -> Duration {
        let Self { pair, a, b, received, unordered } = self;
        let (mut left, end, began) = (bytes, received.saturating_add(bytes), pair.now);
        let mut act = |pair: &mut Pair| {
            let (message, mut info) = (|| bytes::Bytes::from_static(&[7; 1000]), SendInfo::default());
            info.unordered = *unordered;
            while left > 0 && pair.a.endpoint.send(pair.now, *a, info, message()).is_ok() {
                left -= 1000;
            }
            *received += pair.recv_all(Side::B, *b).iter().map(|message| message.data.len()).sum::<usize>();
            pair.clear_captured();
            *received >= end
        };
        if !act(pair) {
            pair.run_until(limit, act);
        }
        pair.now.since(began)
    }
}

fn with(multipath: Multipath) -> AssociationConfig {
    let extensions = ExtensionsConfig { multipath, ..ExtensionsConfig::default() };
    AssociationConfig { extensions, ..AssociationConfig::default() }
}

/// Returns the rate in Mbit/s between the second and the fifth second.
fn rate(algorithm: Algorithm, multipath: Multipath, links: &[LinkConfig; 2], primary: usize) -> f64 {
    let config = AssociationConfig { congestion: algorithm, ..with(multipath) };
    rate_of(TwoPaths::new(&config, links, primary))
}

/// Returns that rate with unordered messages.
fn rate_unordered(
    algorithm: Algorithm,
    multipath: Multipath,
    links: &[LinkConfig; 2],
    primary: usize,
) -> f64 {
    let config = AssociationConfig { congestion: algorithm, ..with(multipath) };
    rate_of(TwoPaths { unordered: true, ..TwoPaths::new(&config, links, primary) })
}

fn rate_of(mut paths: TwoPaths) -> f64 {
    paths.send(usize::MAX / 2000 * 1000, ms(2000));
    let before = paths.received;
    let time = paths.send(usize::MAX / 2000 * 1000, ms(3000));
    (paths.received - before) as f64 * 8.0 / time.as_secs_f64() / 1e6
}

/// Two paths of 100 Mbit/s, with round trips of 10 and 40 ms and a queue as long, which lose packets at random.
fn fast_and_far(losses: [f64; 2]) -> [LinkConfig; 2] {
    [
        LinkConfig { loss: Loss::Random(losses[0]), ..link(100, ms(10), 125_000) },
        LinkConfig { loss: Loss::Random(losses[1]), ..link(100, ms(40), 500_000) },
    ]
}

#[test]
fn two_paths_carry_their_sum() {
    let links = fast_and_far([0.0, 0.0]);
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
        let alone = [0, 1].map(|primary| rate(algorithm, Multipath::Off, &links, primary));
        for multipath in [Multipath::Coupled, Multipath::Independent] {
            let both = rate(algorithm, multipath, &links, 0);
            println!("{algorithm:?} {multipath:?}: alone {alone:.1?}, both {both:.1} Mbit/s");
            assert!(both >= 1.8 * alone[0].max(alone[1]), "{algorithm:?} {multipath:?}: {both} {alone:?}");
        }
    }
}

/// The receive window grows for the slower path before that carries anything.
#[test]
fn buffers_grow_for_the_slower_path() {
    let links = [link(50, ms(10), 62_500), link(50, ms(200), 1_250_000)];
    let alone = rate(Algorithm::Cubic, Multipath::Off, &links, 0);
    let both = rate(Algorithm::Cubic, Multipath::Coupled, &links, 0);
    println!("alone {alone:.1}, both {both:.1} Mbit/s");
    assert!(both >= 1.8 * alone, "{both} {alone}");
}

#[test]
fn a_path_with_losses_costs_nothing() {
    for losses in [[0.02, 0.0], [0.0, 0.02]] {
        let links = fast_and_far(losses);
        for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
            let alone = [0, 1].map(|primary| rate(algorithm, Multipath::Off, &links, primary));
            for multipath in [Multipath::Coupled, Multipath::Independent] {
                let both = rate(algorithm, multipath, &links, 0);
                println!("{losses:?} {algorithm:?} {multipath:?}: alone {alone:.1?}, both {both:.1} Mbit/s");
                assert!(both >= 0.99 * alone[0].max(alone[1]), "{losses:?} {algorithm:?}: {both} {alone:?}");
            }
        }
    }
}

/// A path of a hundredth of the rate takes nothing from the other one, with default buffers: whichever is the
/// primary path, and if either of them loses packets. If the slow path does, messages are unordered: in a
/// stream, those of the fast path wait up to a second for what the slow one has lost, so that the rate would
/// depend on when the measurement ends.
#[test]
fn a_slow_path_costs_nothing() {
    for (slow_rtt, losses) in [(10, [0.0, 0.0]), (200, [0.0, 0.0]), (200, [0.02, 0.0]), (200, [0.0, 0.02])] {
        let links = [
            LinkConfig { loss: Loss::Random(losses[0]), ..link(100, ms(10), 125_000) },
            LinkConfig { loss: Loss::Random(losses[1]), ..link(1, ms(slow_rtt), 50_000) },
        ];
        let measure = if losses[1] > 0.0 { rate_unordered } else { rate };
        for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
            let alone = [0, 1].map(|primary| measure(algorithm, Multipath::Off, &links, primary));
            for multipath in [Multipath::Coupled, Multipath::Independent] {
                let both = [0, 1].map(|primary| measure(algorithm, multipath, &links, primary));
                println!(
                    "{slow_rtt} ms {losses:?} {algorithm:?} {multipath:?}: alone {alone:.1?}, both {both:.1?}"
                );
                let least = both[0].min(both[1]);
                assert!(
                    least >= 0.99 * alone[0].max(alone[1]),
                    "{slow_rtt} ms {losses:?} {algorithm:?}: {both:?} {alone:?}"
                );
            }
        }
    }
}

/// A transfer is no slower than over the better path alone, even if small buffers hold less than the faster
/// path sends in a round trip of the other.
#[test]
fn transfers_are_no_slower_than_alone() {
    for (name, links) in [
        ("10 and 40 ms", fast_and_far([0.0, 0.0])),
        ("20 and 300 ms", [link(10, ms(20), 75_000), link(10, ms(300), 275_000)]),
        ("100 and 1 Mbit/s", [link(100, ms(10), 125_000), link(1, ms(200), 50_000)]),
        ("equal", [link(10, ms(60), 75_000), link(10, ms(60), 75_000)]),
    ] {
        for (buffer, sizes) in [(None, [10_000, 100_000]), (Some(100_000), [100_000, 1_000_000])] {
            for bytes in sizes {
                let config = |multipath| AssociationConfig {
                    send_buffer: buffer,
                    receive_buffer: buffer,
                    partial_delivery_point: 50_000,
                    ..with(multipath)
                };
                let time = |multipath, primary| {
                    TwoPaths::new(&config(multipath), &links, primary).send(bytes, ms(60_000)).as_secs_f64()
                };
                let alone = [0, 1].map(|primary| time(Multipath::Off, primary));
                let both = time(Multipath::Coupled, 0);
                let better = alone[0].min(alone[1]);
                println!("{name}, {bytes} B, buffers {buffer:?}: {:.2} x alone", better / both);
                assert!(both <= 1.02 * better, "{name}, {bytes} B, {buffer:?}: {both} s, alone {alone:?}");
            }
        }
    }
}
