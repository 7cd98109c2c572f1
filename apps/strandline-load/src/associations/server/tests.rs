#![allow(clippy::unwrap_used)]
use strandline::Peer;
use strandline::memory::Network;

use super::*;
use crate::testing::fill_while_another_echoes;

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
    let sent = fill_while_another_echoes(&silent, &other, |_| vec![7; 50_000]).await;
    let mut back = 0;
    while back < sent as usize * 50_000 {
        back += silent.recv().await.unwrap().unwrap().data.len();
    }
}
