//! Partial reliability beside a restart of the peer (RFC 9260 section 5.2.4).

use strandline_wire::print;

use super::*;
use crate::event::FailureCause;
use crate::reliability::Reliability;

const ONCE: Reliability = Reliability::retransmissions(0);

/// The client loses its state and comes back with the same ports; `supports` partial reliability or not.
fn crash(pair: &mut Pair, supports: bool) {
    let mut config = config(1, CLIENT);
    std::sync::Arc::make_mut(&mut config.association).extensions.partial_reliability = supports;
    pair.hosts[CLIENT].endpoint = Endpoint::new(config, [99; 32], pair.now).unwrap();
    pair.hosts[CLIENT].endpoint.listen(PORT).unwrap();
}

fn send(pair: &mut Pair, id: AssociationId, reliability: Reliability) {
    let info = SendInfo::on(StreamId(3)).reliability(reliability);
    let now = pair.now;
    pair.hosts[SERVER].endpoint.send_slice(now, id, info, b"message").unwrap();
}

/// Returns the FORWARD TSN chunks and DATA chunks sent so far, as text.
fn log(pair: &Pair) -> Vec<String> {
    let lines = pair.log.iter().map(|sent| print::line(&sent.bytes).to_string());
    lines.filter(|line| line.contains("FORWARD TSN") || line.contains("DATA")).collect()
}

/// Returns the causes of the server's failures.
fn failures(pair: &Pair) -> Vec<FailureCause> {
    let events = pair.hosts[SERVER].events.iter();
    let causes = events.filter_map(|(_, event)| match event {
        Event::SendFailed(failed) => Some(failed.cause),
        _ => None,
    });
    causes.collect()
}

/// A message was abandoned, and the peer has not acknowledged the FORWARD TSN when it restarts: there is
/// nothing to skip any more, and the message was reported.
#[test]
fn restart_ends_a_pending_forward_tsn() {
    let (mut pair, _, server) = Pair::established();
    send(&mut pair, server, ONCE);
    pair.pass_dropping(Duration::from_secs(2), |_| true);
    assert_eq!(failures(&pair), [FailureCause::RetransmissionsExhausted]);
    assert!(log(&pair).iter().any(|line| line.contains("FORWARD TSN")));
    crash(&mut pair, true);
    pair.log.clear();
    let again = pair.connect();
    pair.run();
    send(&mut pair, server, Reliability::FULL);
    pair.pass(Duration::from_secs(30));
    assert_eq!(pair.recv(CLIENT, again).unwrap().data, "message");
    assert!(!log(&pair).iter().any(|line| line.contains("FORWARD TSN")), "{:?}", log(&pair));
    assert_eq!(failures(&pair), [FailureCause::RetransmissionsExhausted]);
}

/// A peer that does not support the extension after its restart gets every chunk, and no FORWARD TSN (section 3.3.2).
#[test]
fn restart_without_the_extension() {
    let (mut pair, _, server) = Pair::established();
    assert!(pair.hosts[SERVER].endpoint.status(server).unwrap().extensions.partial_reliability);
    crash(&mut pair, false);
    let again = pair.connect();
    pair.run();
    assert!(!pair.hosts[SERVER].endpoint.status(server).unwrap().extensions.partial_reliability);
    pair.log.clear();
    send(&mut pair, server, ONCE);
    pair.pass_dropping(Duration::from_secs(2), |_| true);
    pair.pass(Duration::from_secs(30));
    assert_eq!(pair.recv(CLIENT, again).unwrap().data, "message");
    assert!(!log(&pair).iter().any(|line| line.contains("FORWARD TSN")), "{:?}", log(&pair));
    assert_eq!(failures(&pair), []);
}

/// A FORWARD TSN from before a restart arrives after it: its tag is that of the earlier association.
#[test]
fn forward_tsn_from_before_a_restart() {
    let (mut pair, client, server) = Pair::established();
    let info = SendInfo::on(StreamId(3)).reliability(ONCE);
    let now = pair.now;
    pair.hosts[CLIENT].endpoint.send_slice(now, client, info, b"lost").unwrap();
    pair.pass_dropping(Duration::from_secs(2), |_| true);
    let forward = pair.log.iter().rfind(|sent| has(kind::FORWARD_TSN)(sent)).cloned().unwrap();
    crash(&mut pair, true);
    let again = pair.connect();
    pair.run();
    pair.deliver(&forward);
    for text in ["one", "two"] {
        pair.send(CLIENT, again, 3, text.as_bytes());
    }
    pair.run();
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "one");
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "two");
}
