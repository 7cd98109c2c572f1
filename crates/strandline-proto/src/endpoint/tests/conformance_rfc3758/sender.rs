//! Rules of the sender that need two endpoints (sections 3.5 and 4.1).

use super::*;
use crate::event::FailureCause;
use crate::reliability::Reliability;

fn pair(paths: u8) -> Pair {
    let mut association = AssociationConfig::default();
    association.extensions.partial_reliability = true;
    let association = Arc::new(association);
    let with = |host| EndpointConfig { association: Arc::clone(&association), ..config(paths, host) };
    Pair::with(with(CLIENT), with(SERVER))
}

fn send(pair: &mut Pair, id: AssociationId, reliability: Reliability, data: &[u8]) {
    let info = SendInfo::on(StreamId(1)).reliability(reliability);
    pair.hosts[CLIENT].endpoint.send_slice(pair.now, id, info, data).unwrap();
}

fn abandoned(pair: &Pair) -> Vec<FailureCause> {
    let cause = |(_, event): &(AssociationId, Event)| match event {
        Event::SendFailed(failed) => Some(failed.cause),
        _ => None,
    };
    pair.hosts[CLIENT].events.iter().filter_map(cause).collect()
}

/// C3: a FORWARD TSN goes to a confirmed address only, also while that one does not answer.
#[test]
fn rule_c3_forward_tsn_needs_a_confirmed_address() {
    let mut pair = pair(2);
    let client = pair.connect();
    // Nothing that goes to the second address arrives, so that it is never confirmed.
    let unconfirmed =
        |sent: &Sent| sent.destination == address(SERVER, 1) || sent.source == address(SERVER, 1);
    pair.pass_dropping(Duration::from_millis(100), unconfirmed);
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
    pair.log.clear();
    send(&mut pair, client, Reliability::retransmissions(0), b"abandoned");
    let silent = |sent: &Sent| unconfirmed(sent) || (sent.source.ip() == address(CLIENT, 0).ip());
    pair.pass_dropping(Duration::from_secs(20), silent);
    assert_eq!(abandoned(&pair), [FailureCause::RetransmissionsExhausted]);
    let forward: Vec<_> = pair.log.iter().filter(|sent| has(kind::FORWARD_TSN)(sent)).collect();
    assert!(forward.len() > 2, "it is repeated: {:?}", pair.kinds());
    assert!(forward.iter().all(|sent| sent.destination == address(SERVER, 0)));
    assert!(pair.log.iter().any(|sent| unconfirmed(sent) && has(kind::HEARTBEAT)(sent)), "it is probed");
}

/// F1: a FORWARD TSN is sent for nothing but what was abandoned. TR2: as long as the lifetime lasts, a
/// message is retransmitted like any other.
#[test]
fn rules_f1_and_tr2_limits_not_reached() {
    let mut pair = pair(1);
    let client = pair.connect();
    pair.run();
    let server = pair.accepted();
    let limits = [
        Reliability::lifetime(Duration::from_secs(60)),
        Reliability::retransmissions(20),
        Reliability::priority(3),
        Reliability::FULL,
    ];
    for (number, limit) in limits.into_iter().cycle().take(40).enumerate() {
        send(&mut pair, client, limit, &[number as u8; 900]);
    }
    let mut count = 0;
    let lossy = |sent: &Sent| {
        count += 1;
        has(kind::DATA)(sent) && count % 3 == 0
    };
    pair.pass_dropping(Duration::from_secs(30), lossy);
    for number in 0..40 {
        assert_eq!(pair.recv(SERVER, server).expect("all of them").data[0], number);
    }
    let retransmitted = pair.hosts[CLIENT].endpoint.status(client).unwrap().stats.retransmissions;
    assert!(retransmitted > 0, "some were lost");
    assert!(!pair.log.iter().any(has(kind::FORWARD_TSN)));
    assert_eq!(abandoned(&pair), []);
}
