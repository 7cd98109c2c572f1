//! COOKIE ECHO behind AUTH, restart and collision (section 6.3, RFC 9260 section 5.2.4).

use super::*;

const SET_UP: [u8; 3] = [kind::COOKIE_ECHO, kind::COOKIE_ACK, kind::DATA];

#[test]
fn section_6_3_cookie_echo_is_authenticated_by_the_cookie() {
    let mut pair = pair(&SET_UP, &SET_UP);
    set_only_key(&mut pair, CLIENT, 3, SECRET);
    set_only_key(&mut pair, SERVER, 3, SECRET);
    let client = pair.connect();
    pair.send(CLIENT, client, 0, b"with the cookie");
    pair.run();
    let echo = pair.log.iter().find(|sent| has(kind::COOKIE_ECHO)(sent)).expect("a COOKIE ECHO");
    assert_eq!(echo.kinds(), [kind::AUTH, kind::COOKIE_ECHO, kind::DATA]);
    let server = pair.accepted();
    assert_eq!(pair.recv(SERVER, server).map(|message| message.data), Some("with the cookie".into()));
    assert_eq!(pair.recv(SERVER, server), None, "it is processed once");
    assert!(exchange(&mut pair, client, server));
}

/// Other stacks processed AUTH and COOKIE ECHO without keys (CVE-2014-0101).
#[test]
fn section_6_3_cookie_echo_without_auth_is_discarded() {
    let mut pair = pair(&[], &[kind::COOKIE_ECHO]);
    let _ = pair.connect();
    pair.run_to(kind::COOKIE_ECHO);
    let echo = pair.wire.pop_front().unwrap();
    let chunks = echo.bytes[12..].to_vec();
    assert_eq!(echo.kinds(), [kind::AUTH, kind::COOKIE_ECHO]);
    let tag = echo.tag();
    let auth_len = usize::from(u16::from_be_bytes([chunks[2], chunks[3]]));
    let mut tries = vec![chunks[auth_len..].to_vec()];
    for at in [4, 5, 6, 7, 8, auth_len - 1, auth_len + 3, chunks.len() - 1] {
        let mut changed = chunks.clone();
        changed[at] ^= 1;
        tries.push(changed);
    }
    // An AUTH chunk without fields, and a second COOKIE ECHO in front.
    tries.push([&[kind::AUTH, 0, 0, 4][..], &chunks[auth_len..]].concat());
    tries.push([&chunks[auth_len..], &chunks].concat());
    for bytes in tries {
        let bytes = packet_of((5000, PORT), tag, &bytes);
        pair.deliver(&Sent { bytes, ..echo.clone() });
        assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 0);
        assert!(pair.wire.is_empty());
    }
    pair.deliver(&echo);
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 1);
}

/// Without authentication on this side, AUTH is an unknown chunk, and COOKIE ECHO behind it is discarded with it.
#[test]
fn cookie_echo_behind_unknown_auth_is_discarded() {
    let mut pair = Pair::new();
    let _ = pair.connect();
    pair.run_to(kind::COOKIE_ECHO);
    let echo = pair.wire.pop_front().unwrap();
    let auth = [kind::AUTH, 0, 0, 28, 0, 0, 0, 1];
    let bytes = [&auth[..], &[0; 20], &echo.bytes[12..]].concat();
    let bytes = packet_of((5000, PORT), echo.tag(), &bytes);
    pair.deliver(&Sent { bytes, ..echo });
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 0);
    assert!(pair.wire.is_empty());
}

/// A peer that lost its state sets up anew, with new Random Numbers and keys.
#[test]
fn section_6_3_restart_derives_new_keys() {
    let chunks = [kind::DATA, kind::SACK];
    let (mut pair, client, server) = pair(&chunks, &chunks).establish();
    assert!(exchange(&mut pair, client, server));
    pair.hosts[CLIENT].endpoint =
        Endpoint::new(configured(Some(demanding(&chunks)), CLIENT), [77; 32], pair.now).unwrap();
    let again = pair.connect();
    pair.run();
    let restarted = |(_, event): &(AssociationId, Event)| matches!(event, Event::Restarted { .. });
    assert!(pair.hosts[SERVER].events.iter().any(restarted));
    assert!(exchange(&mut pair, again, server));
}

/// A peer that restarts without authentication is refused: otherwise a restart would get rid of it. With it
/// the peer may restart.
#[test]
fn section_6_3_restart_keeps_authentication() {
    let chunks = [kind::DATA, kind::ABORT];
    let (mut pair, client, server) = pair(&chunks, &chunks).establish();
    assert!(exchange(&mut pair, client, server));
    let before = pair.hosts[SERVER].endpoint.status(server).unwrap();
    pair.hosts[CLIENT].endpoint = Endpoint::new(configured(None, CLIENT), [77; 32], pair.now).unwrap();
    let again = pair.connect();
    pair.run();
    let ended = |(id, event): &(AssociationId, Event)| *id == again && matches!(event, Event::Closed(_));
    let ends: Vec<_> = pair.hosts[CLIENT].events.iter().filter(|event| ended(event)).collect();
    assert!(matches!(ends[..], [(_, Event::Closed(CloseReason::PeerAborted { code: 2, .. }))]), "{ends:?}");
    let after = pair.hosts[SERVER].endpoint.status(server).unwrap();
    assert_eq!((before.peer_tag, before.extensions), (after.peer_tag, after.extensions));
    pair.hosts[CLIENT].endpoint =
        Endpoint::new(configured(Some(demanding(&chunks)), CLIENT), [78; 32], pair.now).unwrap();
    let again = pair.connect();
    pair.run();
    assert!(exchange(&mut pair, again, server));
}

/// Authentication that was not agreed on is reported again after a restart (RFC 6458 section 6.1.8).
#[test]
fn restart_without_authentication_is_reported() {
    let settings = configured(Some(demanding(&[kind::DATA])), SERVER);
    let (mut pair, ..) = Pair::with(configured(None, CLIENT), settings).establish();
    pair.hosts[CLIENT].endpoint = Endpoint::new(configured(None, CLIENT), [77; 32], pair.now).unwrap();
    let _ = pair.connect();
    pair.run();
    assert_eq!(events(&pair, SERVER), [AuthenticationEvent::NotSupported]);
}

/// A server that demands authenticated COOKIE ECHOs is not restarted by a peer that has lost its keys.
#[test]
fn section_6_3_restart_needs_the_old_keys() {
    let chunks = [kind::COOKIE_ECHO];
    let (mut pair, client, server) = pair(&chunks, &chunks).establish();
    assert!(exchange(&mut pair, client, server));
    let tag = pair.hosts[SERVER].endpoint.status(server).unwrap().peer_tag;
    pair.hosts[CLIENT].endpoint =
        Endpoint::new(configured(Some(demanding(&chunks)), CLIENT), [77; 32], pair.now).unwrap();
    let _ = pair.connect();
    pair.pass(Duration::from_secs(2));
    assert_eq!(pair.hosts[SERVER].endpoint.status(server).unwrap().peer_tag, tag);
}

/// INITs that cross: both sides keep their Random Numbers, as their tags.
#[test]
fn section_6_1_collision_agrees_on_keys() {
    for chunks in [&SET_UP[..], &[kind::DATA]] {
        let mut pair = pair(chunks, chunks);
        let connect = |pair: &mut Pair, host: usize, ports: (u16, u16)| {
            let remotes = vec![pair.hosts[1 - host].addresses[0]];
            let (local_port, peer_port) = ports;
            let request = Connect { local_port, peer_port, remotes, local: Vec::new(), config: None };
            pair.hosts[host].endpoint.connect(pair.now, request).unwrap()
        };
        let client = connect(&mut pair, CLIENT, (5000, 5001));
        let server = connect(&mut pair, SERVER, (5001, 5000));
        pair.run();
        assert_eq!((pair.state(CLIENT, client), pair.state(SERVER, server)), ("ESTABLISHED", "ESTABLISHED"));
        assert!(exchange(&mut pair, client, server));
    }
}

/// AUTH does not change the answer to a packet without an association.
#[test]
fn section_6_3_out_of_the_blue_ignores_auth() {
    let auth = [&[kind::AUTH, 0, 0, 28, 0, 0, 0, 1][..], &[0; 20]].concat();
    let (shutdown_ack, cookie_ack) = ([kind::SHUTDOWN_ACK, 0, 0, 4], [kind::COOKIE_ACK, 0, 0, 4]);
    let mut pair = pair(&[kind::DATA], &[kind::DATA]);
    let mut answer = |chunks: &[&[u8]]| {
        let bytes = packet_of((RAW_PORT, PORT), VerificationTag(9), &chunks.concat());
        let (source, destination) = (address(CLIENT, 0), address(SERVER, 0));
        pair.deliver(&Sent { source, destination, bytes, fragment: false });
        pair.wire.drain(..).map(|sent| (sent.tag(), sent.kinds())).collect::<Vec<_>>()
    };
    assert_eq!(answer(&[&auth, &shutdown_ack]), [(VerificationTag(9), vec![kind::SHUTDOWN_COMPLETE])]);
    assert_eq!(answer(&[&auth, &cookie_ack]), []);
    assert_eq!(answer(&[&auth]), [(VerificationTag(9), vec![kind::ABORT])]);
}

#[test]
fn section_6_3_cookies_hold_no_shared_key() {
    let mut pair = pair(&[kind::DATA], &[kind::DATA]);
    set_only_key(&mut pair, SERVER, 5, SECRET);
    let _ = pair.connect();
    pair.run_to(kind::COOKIE_ECHO);
    assert!(pair.log.iter().any(has(kind::INIT_ACK)));
    for sent in &pair.log {
        assert!(!sent.bytes.windows(SECRET.len()).any(|bytes| bytes == SECRET));
    }
}

/// A COOKIE ECHO that arrives again after it was accepted is answered, if it is authenticated.
#[test]
fn section_6_3_duplicate_cookie_echo_is_answered() {
    let mut pair = pair(&SET_UP, &SET_UP);
    let client = pair.connect();
    pair.run_dropping(has(kind::COOKIE_ACK));
    pair.pass(Duration::from_secs(10));
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 1);
}

/// The chunk types of the packets that the server has sent and that are under way.
fn answers(pair: &Pair) -> Vec<Vec<u8>> {
    pair.wire.iter().filter(|sent| sent.source == address(SERVER, 0)).map(Sent::kinds).collect()
}

/// Section 6.2: the keys are known since the INIT ACK, so that a server authenticates what answers a stale cookie.
#[test]
fn section_6_2_stale_cookie_error_is_authenticated() {
    let mut pair = pair(&[kind::ERROR], &[]);
    set_only_key(&mut pair, CLIENT, 3, SECRET);
    set_only_key(&mut pair, SERVER, 3, SECRET);
    let client = pair.connect();
    pair.run_to(kind::COOKIE_ECHO);
    let echo = pair.wire.pop_front().unwrap();
    pair.now += Duration::from_secs(61);
    pair.deliver(&echo);
    assert_eq!(answers(&pair), [[kind::AUTH, kind::ERROR]]);
    pair.run();
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
    let server = pair.accepted();
    assert!(exchange(&mut pair, client, server));
}

/// One that nobody has authenticated does not make the client set up anew.
#[test]
fn section_6_3_forged_stale_cookie_error_is_ignored() {
    let mut pair = pair(&[kind::ERROR], &[]);
    let client = pair.connect();
    pair.run_to(kind::COOKIE_ECHO);
    let tag = pair.log[0].bytes[16..20].try_into().map(u32::from_be_bytes).unwrap();
    let bytes =
        packet_of((PORT, 5000), VerificationTag(tag), &[kind::ERROR, 0, 0, 12, 0, 3, 0, 8, 0, 0, 0, 1]);
    let (source, destination) = (address(SERVER, 0), address(CLIENT, 0));
    pair.deliver(&Sent { source, destination, bytes, fragment: false });
    assert_eq!(pair.state(CLIENT, client), "COOKIE-ECHOED");
}

/// A cookie that can't be used any more is refused with an ABORT that the client accepts.
#[test]
fn section_6_2_refusals_of_cookies_are_authenticated() {
    let server = EndpointConfig { associations_max: 1, ..configured(Some(demanding(&[])), SERVER) };
    let mut pair = Pair::with(configured(Some(demanding(&[kind::ABORT])), CLIENT), server);
    let first = pair.connect();
    pair.run_to(kind::COOKIE_ECHO);
    let echo = pair.wire.pop_front().unwrap();
    let remotes = vec![address(SERVER, 0)];
    let request = Connect { local_port: 5001, peer_port: PORT, remotes, local: Vec::new(), config: None };
    let second = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    pair.run();
    assert_eq!(pair.state(CLIENT, second), "ESTABLISHED");
    pair.deliver(&echo);
    assert_eq!(answers(&pair), [[kind::AUTH, kind::ABORT]]);
    pair.run();
    assert_eq!(pair.state(CLIENT, first), "CLOSED");
    // The cookie of an association that has ended.
    let used = pair.log.iter().rfind(|sent| has(kind::COOKIE_ECHO)(sent)).unwrap().clone();
    pair.hosts[CLIENT].endpoint.abort(pair.now, second, "enough".into()).unwrap();
    pair.run();
    pair.deliver(&used);
    assert_eq!(answers(&pair), [[kind::AUTH, kind::ABORT]]);
    // One of a listener that has closed.
    pair.wire.clear();
    let third = pair.connect();
    pair.run_to(kind::COOKIE_ECHO);
    pair.hosts[SERVER].endpoint.close_listener(PORT);
    pair.run();
    assert_eq!(pair.state(CLIENT, third), "CLOSED");
}

/// RFC 9260 section 5.2.4 A: a peer that restarts during the shutdown gets an ERROR, for which its new keys are known.
#[test]
fn section_6_2_error_while_shutting_down_is_authenticated() {
    let settings = || configured(Some(demanding(&[kind::ERROR])), CLIENT);
    let (mut pair, client, server) =
        Pair::with(settings(), configured(Some(demanding(&[])), SERVER)).establish();
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.collect();
    let shutdown = pair.wire.pop_front().unwrap();
    assert_eq!(shutdown.kinds(), [kind::SHUTDOWN]);
    pair.hosts[CLIENT].endpoint = Endpoint::new(settings(), [77; 32], pair.now).unwrap();
    let again = pair.connect();
    pair.run_to(kind::COOKIE_ECHO);
    let echo = pair.wire.pop_front().unwrap();
    pair.deliver(&shutdown);
    assert_eq!(pair.state(SERVER, server), "SHUTDOWN-ACK-SENT");
    pair.wire.clear();
    pair.deliver(&echo);
    assert!(answers(&pair).contains(&vec![kind::AUTH, kind::ERROR]), "{:?}", answers(&pair));
    let cookie = |(_, event): &(AssociationId, Event)| matches!(event, Event::Closed(_));
    pair.run();
    assert!(!pair.hosts[CLIENT].events.iter().any(cookie));
    assert_eq!(pair.state(CLIENT, again), "COOKIE-ECHOED");
}
