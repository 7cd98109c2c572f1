use super::*;

fn flow(registry: &Arc<Registry>, rate: &Arc<PeerRate>, is_near: bool) -> ConnectionGuard {
    let about = ConnectionInfo {
        listener: "listen_udp",
        peer: "far".into(),
        client: Some(SocketAddr::from(([192, 0, 2, 1], 1))),
        destination: String::new(),
        is_near,
    };
    let tracked = registry.begin(about);
    tracked.entry.set_rate(Arc::clone(rate));
    tracked
}

/// A client of a peer's socket has room that strangers can't take once it was answered, and a peer's own flows have
/// more.
#[tokio::test(start_paused = true)]
async fn answered_clients_are_no_strangers() {
    let (registry, limit) = (Arc::<Registry>::default(), tokio::sync::watch::Sender::new(1_000_000));
    let rate = Arc::new(PeerRate::new(limit.subscribe()));
    let [stranger, known, own] = [true, true, false].map(|is_near| flow(&registry, &rate, is_near));
    known.entry.add_received(1);
    let admits = |tracked: &ConnectionGuard| tracked.entry.admits(Direction::Sent, 1_000);
    for tracked in [&stranger, &known, &own] {
        assert!(admits(tracked));
        while admits(tracked) {}
        assert!(!admits(&stranger));
    }
}
