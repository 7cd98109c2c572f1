use std::sync::Arc;
use std::time::Duration;

use super::ClientShares;
use crate::clock::now;
use crate::config::Limits;

const GREEDY: [u8; 4] = [192, 0, 2, 1];
const OTHER: [u8; 4] = [192, 0, 2, 2];

fn limits(connections_max: u32, connections_per_sec: u32) -> Limits {
    Limits { connections_max, connections_per_sec, ..Limits::default() }
}

/// Takes all that a client gets, up to a number.
fn take_all(
    shares: &Arc<ClientShares>,
    client: [u8; 4],
    limits: &Limits,
    most: usize,
) -> Vec<super::ClientPermit> {
    let now = now();
    std::iter::from_fn(|| shares.take(client.into(), limits, now)).take(most).collect()
}

#[test]
fn a_client_leaves_connections_to_others() {
    let (shares, limits) = (Arc::<ClientShares>::default(), limits(800, 1_000_000));
    let greedy = take_all(&shares, GREEDY, &limits, 10_000);
    assert_eq!(greedy.len(), 700);
    assert_eq!(take_all(&shares, OTHER, &limits, 50).len(), 50, "another one finds room");
    let others = take_all(&shares, OTHER, &limits, 10_000);
    assert!((80..100).contains(&others.len()), "{}", others.len());
    assert_eq!(take_all(&shares, [192, 0, 2, 3], &limits, 1).len(), 1, "and so does a third one");
    drop((greedy, others));
    assert_eq!(take_all(&shares, OTHER, &limits, 10_000).len(), 700, "nothing is left of those that ended");
}

#[test]
fn a_client_leaves_others_their_rate() {
    let (shares, limits) = (Arc::<ClientShares>::default(), limits(1_000_000, 80));
    let begun = now();
    let take = |client: [u8; 4], at| shares.take(client.into(), &limits, begun + at).is_some();
    let count = |client, at| (0..1000).filter(|_| take(client, at)).count();
    assert_eq!(count(GREEDY, Duration::ZERO), 70);
    assert!((8..=10).contains(&count(OTHER, Duration::ZERO)), "another one finds room");
    // Greedy ones try all the time, and the other now and then.
    for ms in 1..5000 {
        let at = Duration::from_millis(ms);
        take(GREEDY, at);
        assert!(ms % 500 != 0 || ms < 1000 || take(OTHER, at), "after {ms} ms");
    }
    assert_eq!(count(OTHER, Duration::from_secs(100)), 70);
}
