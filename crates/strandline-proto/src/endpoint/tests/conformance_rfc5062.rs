//! RFC 5062: attacks on SCTP that need no place on the path. Those by dynamic addresses are in
//! `conformance_rfc5061/attacks`, and docs/conformance.md names the test of each.

use strandline_wire::TlvWriter;
use strandline_wire::cause::Causes;
use strandline_wire::chunk::{Abort, Chunk, CookieEcho, Init};
use strandline_wire::number::Tsn;
use strandline_wire::parameter::{Parameter, Parameters};

use super::raw::*;
use super::*;

/// Number of addresses of the victim.
const VICTIMS: u8 = 7;
/// Path.Max.Retrans + 1 HEARTBEATs confirm an address or give it up.
const HEARTBEATS_PER_ADDRESS: usize = 6;

/// Sends a packet with one chunk from a client address that is not part of an association. Returns the answers.
fn say(pair: &mut Pair, tag: VerificationTag, chunk: &impl strandline_wire::Encode) -> Vec<Sent> {
    let sent = pair.forge(CLIENT, (RAW_PORT, PORT), tag, |packet| assert!(packet.push(chunk)));
    pair.deliver(&sent);
    pair.wire.drain(..).collect()
}

/// Returns the server's tag in an INIT ACK, and the cookie.
fn cookie_in(answers: &[Sent]) -> (VerificationTag, Vec<u8>) {
    let Some(Chunk::InitAck(ack)) = chunks(answers.first().expect("an answer")).into_iter().next() else {
        panic!("no INIT ACK")
    };
    let cookie = ack.parameters.iter().flatten().find_map(|raw| match raw.parse() {
        Ok(Parameter::StateCookie(cookie)) => Some(cookie.to_vec()),
        _ => None,
    });
    (ack.initiate_tag, cookie.expect("a cookie"))
}

/// Section 3 (hijacking 1): whoever has got an address of the peer gets neither tag of the association by an INIT: the
/// Tie-Tags in the cookie are others.
#[test]
fn init_ack_reveals_no_tag() {
    let (mut pair, _, server) = Pair::established();
    let status = pair.hosts[SERVER].endpoint.status(server).unwrap();
    let init = init(Tsn(5));
    let sent = pair.forge(CLIENT, (status.peer_port, PORT), VerificationTag(0), |packet| {
        assert!(packet.push(&init));
    });
    pair.deliver(&sent);
    let answer = pair.wire.pop_front().expect("an INIT ACK");
    assert_eq!(answer.kinds(), [kind::INIT_ACK]);
    for tag in [status.local_tag, status.peer_tag] {
        let bytes = tag.0.to_be_bytes();
        assert!(!answer.bytes.windows(4).any(|window| window == bytes), "{tag:?}");
    }
}

/// Section 4 (hijacking 2): a restart by whoever has the peer's address now is reported to the application.
#[test]
fn restart_is_reported() {
    let (mut pair, _, server) = Pair::established();
    let status = pair.hosts[SERVER].endpoint.status(server).unwrap();
    let ports = (status.peer_port, PORT);
    let init = init(Tsn(5));
    let sent = pair.forge(CLIENT, ports, VerificationTag(0), |packet| assert!(packet.push(&init)));
    pair.deliver(&sent);
    let answers: Vec<_> = pair.wire.drain(..).collect();
    let (tag, cookie) = cookie_in(&answers);
    let sent = pair.forge(CLIENT, ports, tag, |packet| assert!(packet.push(&CookieEcho { cookie: &cookie })));
    pair.deliver(&sent);
    let restarts =
        |(id, event): &(AssociationId, Event)| *id == server && matches!(event, Event::Restarted { .. });
    assert!(pair.hosts[SERVER].events.iter().any(restarts));
}

/// Section 6 (bombing 2): a cookie that names a victim's addresses is sent again and again. The victim's ABORT ends the
/// association, and the cookie is spent then.
#[test]
fn stored_cookie_bombs_nobody() {
    let mut buffer = [0; 200];
    let mut writer = TlvWriter::new(&mut buffer);
    for last in 1..=VICTIMS {
        assert!(writer.push(&Parameter::Ipv4Address([203, 0, 113, last].into())));
    }
    let init = Init { parameters: Parameters::new(writer.finish()), ..init(Tsn(1)) };
    for aborts in [false, true] {
        let mut pair = Pair::new();
        let (tag, cookie) = cookie_in(&say(&mut pair, VerificationTag(0), &init));
        let mut heartbeats = 0;
        for _ in 0..50 {
            let mut sent = say(&mut pair, tag, &CookieEcho { cookie: &cookie });
            let from = pair.log.len();
            pair.pass(Duration::from_secs(1));
            sent.extend(pair.log[from..].iter().cloned());
            let to_victim = |sent: &&Sent| sent.destination.ip().to_string().starts_with("203.");
            let bombs: Vec<_> = sent.iter().filter(to_victim).cloned().collect();
            assert!(bombs.iter().all(|sent| sent.kinds() == [kind::HEARTBEAT] && sent.bytes.len() < 50));
            heartbeats += bombs.len();
            if let Some(bomb) = bombs.first().filter(|_| aborts) {
                let abort = Abort { tag_reflected: true, causes: Causes::new(&[]) };
                let mut sent =
                    pair.forge(CLIENT, (RAW_PORT, PORT), bomb.tag(), |packet| assert!(packet.push(&abort)));
                sent.source = bomb.destination;
                pair.deliver(&sent);
            }
        }
        let limit = if aborts { usize::from(VICTIMS) } else { usize::from(VICTIMS) * HEARTBEATS_PER_ADDRESS };
        assert!((1..=limit).contains(&heartbeats), "{heartbeats} HEARTBEATs, with ABORT: {aborts}");
    }
}

/// Section 7 (redirection): a COOKIE ECHO with another source or destination port than the INIT.
#[test]
fn cookie_counts_only_with_its_ports() {
    let mut pair = Pair::new();
    let (tag, cookie) = cookie_in(&say(&mut pair, VerificationTag(0), &init(Tsn(1))));
    pair.hosts[SERVER].endpoint.listen(PORT + 1).unwrap();
    for ports in [(RAW_PORT + 1, PORT), (RAW_PORT, PORT + 1)] {
        let sent =
            pair.forge(CLIENT, ports, tag, |packet| assert!(packet.push(&CookieEcho { cookie: &cookie })));
        pair.deliver(&sent);
        assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 0, "{ports:?}");
        assert!(pair.wire.drain(..).all(|sent| !has(kind::COOKIE_ACK)(&sent)));
    }
    assert!(say(&mut pair, tag, &CookieEcho { cookie: &cookie }).iter().any(has(kind::COOKIE_ACK)));
}

/// Section 9 (bombing 4): an INIT ACK, which may go to a victim, is small.
#[test]
fn init_ack_is_small() {
    let mut pair = Pair::new();
    pair.connect();
    pair.run();
    let len = |kind| pair.log.iter().find(|sent| has(kind)(sent)).map_or(0, |sent| sent.bytes.len());
    let (init, ack) = (len(kind::INIT), len(kind::INIT_ACK));
    assert!(ack <= 4 * init && ack <= 300, "{ack} bytes for {init}");
}
