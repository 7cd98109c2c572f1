use strandline::Peer;
use strandline::memory::Network;

use super::*;
use crate::testing::fill_while_another_echoes;

/// One peer sends and doesn't read: the others are answered at once, and later it receives everything.
#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_delays_nobody() {
    let network = Network::new();
    let stack = |address: [u8; 4]| Stack::builder().memory(&network, [address.into()]).unwrap();
    let (there, here, elsewhere) = (stack([10, 0, 0, 1]), stack([10, 0, 0, 2]), stack([10, 0, 0, 3]));
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    tokio::spawn(async move {
        while let Ok((from, message)) = endpoint.recv_from().await {
            echo_many(&endpoint, from, message, false).unwrap();
        }
    });
    let peer = || Peer::new([10, 0, 0, 1], 7);
    let silent = Association::connect(&here, peer()).await.unwrap();
    let other = Association::connect(&elsewhere, peer()).await.unwrap();
    let numbered = |number: u32| {
        let mut data = vec![0; 50_000];
        data[..4].copy_from_slice(&number.to_be_bytes());
        data
    };
    let sent = fill_while_another_echoes(&silent, &other, numbered).await;
    for number in 0..sent {
        let mut echo = Vec::new();
        while echo.len() < 50_000 {
            echo.extend_from_slice(&silent.recv().await.unwrap().unwrap().data);
        }
        assert_eq!(echo[..4], number.to_be_bytes());
    }
}
