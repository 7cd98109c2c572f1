use std::time::Duration;

use super::*;
use crate::association::Association;
use crate::carrier::narrow::Narrow;
use crate::listener::Listener;
use strandline_proto::event::SendInfo;
use tokio::time::{interval, timeout};

#[tokio::test(start_paused = true)]
async fn blocked_packets_go_later_once_in_order() {
    let network = Network::new();
    let builder = Stack::builder();
    let plan = builder.plan().unwrap();
    let socket = network.attach(vec![[10, 0, 0, 1].into()], &plan.rule).unwrap().remove(0);
    let narrow = Arc::new(Narrow::new(socket, usize::MAX));
    let builder = StackBuilder { remote_port: Some(memory::PORT), ..builder };
    let here = builder.start(plan, vec![Carrier::Narrow(Arc::clone(&narrow))], None).unwrap();
    let there = Stack::builder().memory(&network, [[10, 0, 0, 2].into()]).unwrap();
    let listener = Listener::bind(&there, 7).unwrap();
    let peer: (IpAddr, u16) = ([10, 0, 0, 2].into(), 7);
    let client = Association::connect(&here, peer).await.unwrap();
    let server = listener.accept().await.unwrap();

    narrow.set_room(0);
    for number in 0..40_u32 {
        client.send(&[number as u8; 1000], SendInfo::default()).await.unwrap();
    }
    assert!(
        timeout(Duration::from_millis(50), server.recv()).await.is_err(),
        "there is no room for anything"
    );
    let receiving = tokio::spawn(async move {
        for number in 0..40_u32 {
            assert_eq!(server.recv().await.unwrap().unwrap().data, vec![number as u8; 1000]);
        }
    });
    // Room for one packet at a time, so that bursts are sent in part.
    let mut pace = interval(Duration::from_millis(1));
    while !receiving.is_finished() {
        narrow.set_room(1);
        pace.tick().await;
    }
    receiving.await.unwrap();
    assert_eq!(client.status().unwrap().stats.retransmissions, 0);
}

#[test]
fn outside_of_a_runtime_there_is_a_hint() {
    let error = Stack::builder().memory(&Network::new(), [[10, 0, 0, 1].into()]).unwrap_err();
    assert!(matches!(error, StackError::NoRuntime), "{error}");
}

#[tokio::test]
async fn shards_share_the_limits_of_the_stack() {
    for (shards, share) in [(1, 10_000), (4, 2500), (3, 3334)] {
        let plan = Stack::builder().shards(shards).plan().unwrap();
        let limits = EndpointConfig::default();
        let mut config = EndpointConfig { verification_rate_max: 10_000, associations_max: 10_000, ..limits };
        plan.divide(&mut config, 0);
        assert_eq!((config.verification_rate_max, config.associations_max), (share, share));
    }
}
