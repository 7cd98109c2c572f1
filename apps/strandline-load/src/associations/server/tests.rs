#![allow(clippy::unwrap_used)]
use std::time::Duration;

use strandline::memory::Network;
use strandline::{Peer, StreamId};

use super::*;

/// One client sends and doesn't read: the others are answered at once, and later it gets everything back.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_delays_nobody() {
    let network = Network::new();
    let stack = |address: [u8; 4]| Stack::builder().memory(&network, [address.into()]).unwrap();
    let (there, here, elsewhere) = (stack([10, 0, 0, 1]), stack([10, 0, 0, 2]), stack([10, 0, 0, 3]));
    tokio::spawn(echo(Arc::new(Endpoint::bind(&there, 7).unwrap()), Arc::default()));
    let peer = || Peer::new([10, 0, 0, 1], 7);
    let silent = Association::connect(&here, peer()).await.unwrap();
    let other = Association::connect(&elsewhere, peer()).await.unwrap();
    let mut sent = 0u32;
    while tokio::time::timeout(Duration::from_secs(5), silent.send(&[7; 50_000], SendInfo::default()))
        .await
        .is_ok()
    {
        sent += 1;
        assert!(sent < 10_000, "nothing bounds what the server keeps");
        let began = tokio::time::Instant::now();
        other.send(b"hello", SendInfo::on(StreamId(1))).await.unwrap();
        assert_eq!(other.recv().await.unwrap().unwrap().data, "hello");
        assert!(began.elapsed() < Duration::from_millis(10), "in virtual time, on a network without delay");
    }
    let mut back = 0;
    while back < sent as usize * 50_000 {
        back += silent.recv().await.unwrap().unwrap().data.len();
    }
}
