use super::*;

fn addresses(list: &[&str]) -> Vec<SocketAddr> {
    list.iter().map(|address| address.parse().unwrap()).collect()
}

#[test]
fn kinds_of_addresses_alternate() {
    let found = addresses(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"]);
    let ordered = addresses(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]);
    assert_eq!(interleave(found), ordered);
    let many: Vec<SocketAddr> = (0..40).map(|port| ([1, 1, 1, 1], port).into()).collect();
    assert_eq!(interleave(many.clone()), many[..16]);
}

/// Connects to port N after N milliseconds; to port 1 never, and to port 2 with an error at once.
async fn connect(address: SocketAddr) -> io::Result<u16> {
    match address.port() {
        1 => std::future::pending().await,
        2 => Err(io::ErrorKind::ConnectionRefused.into()),
        port => {
            // Sleeps because virtual time is what is measured.
            tokio::time::sleep(Duration::from_millis(port.into())).await;
            Ok(port)
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_wins() {
    for (list, winner, millis) in [
        (&["[::1]:10", "1.1.1.1:3"][..], 10, 10),
        (&["[::1]:1", "1.1.1.1:10"], 10, 260),
        (&["[::1]:2", "1.1.1.1:10"], 10, 10),
        (&["[::1]:400", "1.1.1.1:10"], 10, 260),
        (&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:10"], 10, 760),
        (&["[::1]:2", "[::2]:2", "[::3]:700", "1.1.1.1:300"], 300, 550),
    ] {
        let begin = tokio::time::Instant::now();
        assert_eq!(race(addresses(list), connect).await.unwrap(), winner, "{list:?}");
        assert_eq!(begin.elapsed().as_millis(), millis, "{list:?}");
    }
    let refused = race(addresses(&["[::1]:2", "1.1.1.1:2"]), connect).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    assert!(race(Vec::new(), connect).await.is_err());
}

#[tokio::test]
async fn addresses_are_not_looked_up() {
    assert_eq!(resolve("[::1]", 5).await.unwrap(), addresses(&["[::1]:5"]));
    assert_eq!(resolve("127.0.0.1", 5).await.unwrap(), addresses(&["127.0.0.1:5"]));
    let error = resolve("no such name", 5).await.unwrap_err();
    assert!(error.to_string().contains("has no address"), "{error}");
}
