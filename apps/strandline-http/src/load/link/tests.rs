use std::sync::atomic::AtomicBool;

use strandline::Listener;
use strandline::memory::{Fate, Network};

use super::*;

#[tokio::test(start_paused = true)]
async fn silent_associations_live_as_long_as_requests() {
    for (timeout, lives, ends) in [(Some(2), 8, true), (Some(60), 55, true), (None, 60, false)] {
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        let network = Network::builder();
        let network =
            network.judge(move |_| if cut.load(Ordering::Relaxed) { Fate::Drop } else { Fate::Deliver });
        let network = network.build();
        let stack = |last| Stack::builder().memory(&network, [[10, 0, 0, last].into()]).unwrap();
        let (here, there) = (stack(1), stack(2));
        let listener = Listener::bind(&there, 80).unwrap();
        let server = Server {
            address: "10.0.0.2:80".parse().unwrap(),
            dial: Dial::Sctp { stack: here.clone(), encapsulation_port: 9899, host: String::new() },
            keeps_alive: true,
            timeout: timeout.map(Duration::from_secs),
            stats: Arc::new(Stats::new(now(), false)),
        };
        let link = Link::sctp(&server, &here, 9899, "10.0.0.2").unwrap();
        let _accepted = listener.accept().await.unwrap();
        link.connected().await.unwrap();
        is_cut.store(true, Ordering::Relaxed);
        let Carrier::Sctp(http, _) = &link.carrier else { panic!("an association") };
        let early = tokio::time::timeout(Duration::from_secs(lives), http.association().closed()).await;
        assert!(early.is_err(), "{timeout:?}");
        let late = tokio::time::timeout(Duration::from_secs(30), http.association().closed()).await;
        assert_eq!(late.is_ok(), ends, "{timeout:?}");
    }
}
