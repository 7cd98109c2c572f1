use std::sync::Arc;

use super::*;

const RATE: u64 = 1_000_000;

fn rate(limit: u64) -> (watch::Sender<u64>, Arc<PeerRate>) {
    let (sender, receiver) = watch::channel(limit);
    (sender, Arc::new(PeerRate::new(receiver)))
}

/// Returns the seconds that a future takes.
async fn seconds(future: impl Future<Output = ()>) -> f64 {
    let begun = now();
    future.await;
    now().saturating_duration_since(begun).as_secs_f64()
}

fn is_about(seconds: f64, expected: f64) -> bool {
    (seconds - expected).abs() < 0.02
}

#[tokio::test(start_paused = true)]
async fn bytes_pass_at_the_rate() {
    let (_limit, rate) = rate(RATE);
    let took = seconds(rate.wait(&rate.turns_of(None), Direction::Sent, 1_100_000)).await;
    assert!(is_about(took, 1.0), "a tenth of a second's bytes were saved up: {took}");
    let took = seconds(rate.wait(&rate.turns_of(None), Direction::Received, 50_000)).await;
    assert!(is_about(took, 0.0), "directions have limits of their own: {took}");
    // Sleeps because time is virtual: it passes at once.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let took = seconds(rate.wait(&rate.turns_of(None), Direction::Sent, 1_100_000)).await;
    assert!(is_about(took, 1.0), "silence saves no more: {took}");
}

#[tokio::test(start_paused = true)]
async fn connections_take_turns() {
    let (_limit, rate) = rate(RATE);
    let large = tokio::spawn({
        let rate = Arc::clone(&rate);
        async move { rate.wait(&rate.turns_of(None), Direction::Sent, 10_000_000).await }
    });
    // Sleeps because time is virtual: it passes at once.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let took = seconds(rate.wait(&rate.turns_of(None), Direction::Sent, 1_000)).await;
    assert!(is_about(took, 0.01), "a few bytes wait for a turn: {took}");
    // A connection that ends gives its turn to others.
    large.abort();
    let _ = large.await;
    let took = seconds(rate.wait(&rate.turns_of(None), Direction::Sent, 100_000)).await;
    assert!(is_about(took, 0.1), "{took}");
}

/// A client with many connections takes no more than its turns.
#[tokio::test(start_paused = true)]
async fn clients_take_turns() {
    let (_limit, rate) = rate(RATE);
    let client = |last| rate.turns_of(Some([192, 0, 2, last].into()));
    let mut many = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (rate, turns) = (Arc::clone(&rate), client(1));
        many.spawn(async move { rate.wait(&turns, Direction::Sent, 1_000_000).await });
    }
    // Sleeps because time is virtual: it passes at once.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let took = seconds(rate.wait(&client(2), Direction::Sent, 100_000)).await;
    assert!(is_about(took, 0.2), "half of the rate is another client's: {took}");
    many.shutdown().await;
    for last in 0..=255 {
        drop(client(last));
    }
    assert!(
        rate.clients.lock().unwrap().turns.len() <= CLIENTS_MIN,
        "clients without connections are forgotten"
    );
}

/// An IPv6 network whose number is that of an IPv4 address is another client.
#[test]
fn clients_of_both_families_are_apart() {
    let (_limit, rate) = rate(RATE);
    let [of_ipv4, of_ipv6, same] = ["192.0.2.1", "0:0:c000:201::1", "::ffff:192.0.2.1"]
        .map(|address| rate.turns_of(address.parse().ok()));
    assert!(!Arc::ptr_eq(&of_ipv4, &of_ipv6) && Arc::ptr_eq(&of_ipv4, &same));
    let [none, zero] = [None, Some([0; 4].into())].map(|address| rate.turns_of(address));
    assert!(!Arc::ptr_eq(&none, &zero));
}

/// Datagrams without data have headers.
#[tokio::test(start_paused = true)]
async fn empty_datagrams_are_limited() {
    let (_limit, rate) = rate(RATE);
    let admitted = (0..100_000).filter(|_| rate.admits(Direction::Received, 0, FlowOf::Peer)).count();
    assert!((1_700..1_900).contains(&admitted), "a tenth of a second's at half of the rate: {admitted}");
}

#[tokio::test(start_paused = true)]
async fn datagrams_get_half_beside_connections() {
    let (_limit, rate) = rate(RATE);
    let large = tokio::spawn({
        let rate = Arc::clone(&rate);
        async move { rate.wait(&rate.turns_of(None), Direction::Sent, 5_000_000).await }
    });
    let (mut admitted, begun) = (0, now());
    while !large.is_finished() {
        admitted += usize::from(rate.admits(Direction::Sent, 1_000, FlowOf::Peer));
        // Sleeps because time is virtual: it passes at once.
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    let took = now().saturating_duration_since(begun).as_secs_f64();
    assert!((9.5..10.5).contains(&took), "the connection gets the other half: {took}");
    assert!((4_650..5_100).contains(&admitted), "{admitted}");
}

/// Clients of a peer's sockets leave a quarter of the rate to the peer's own datagrams.
#[tokio::test(start_paused = true)]
async fn strangers_leave_room_for_own_datagrams() {
    let (_limit, rate) = rate(RATE);
    let (mut own, mut strangers) = (0, 0);
    for _ in 0..10_000 {
        strangers += (0..10).filter(|_| rate.admits(Direction::Sent, 1_000, FlowOf::Client)).count();
        own += usize::from(rate.admits(Direction::Sent, 1_000, FlowOf::Peer));
        // Sleeps because time is virtual: it passes at once.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!((2_400..2_600).contains(&strangers), "{strangers}");
    assert!((2_300..2_600).contains(&own), "{own}");
}

/// Clients that were never answered leave room to those that were.
#[tokio::test(start_paused = true)]
async fn strangers_leave_room_for_known_clients() {
    let (_limit, rate) = rate(RATE);
    let (mut known, mut strangers) = (0, 0);
    for _ in 0..10_000 {
        strangers += (0..10).filter(|_| rate.admits(Direction::Sent, 1_000, FlowOf::Stranger)).count();
        known += usize::from(rate.admits(Direction::Sent, 1_000, FlowOf::Client));
        // Sleeps because time is virtual: it passes at once.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!((1_200..1_300).contains(&strangers), "{strangers}");
    assert!((1_150..1_300).contains(&known), "{known}");
}

#[tokio::test(start_paused = true)]
async fn changed_limit_reaches_those_who_wait() {
    let (limit, rate) = rate(1_000);
    assert!(rate.is_limited());
    let changed = async {
        // Sleeps because time is virtual: it passes at once.
        tokio::time::sleep(Duration::from_secs(1)).await;
        limit.send(RATE).unwrap();
        // Sleeps because time is virtual: it passes at once.
        tokio::time::sleep(Duration::from_secs(1)).await;
        limit.send(0).unwrap();
    };
    let turns = rate.turns_of(None);
    let waits = rate.wait(&turns, Direction::Sent, 1_000_000_000);
    let took = seconds(async { _ = tokio::join!(changed, waits) }).await;
    assert!(is_about(took, 2.0), "{took}");
    assert!(!rate.is_limited() && rate.admits(Direction::Sent, usize::MAX, FlowOf::Peer));
}
