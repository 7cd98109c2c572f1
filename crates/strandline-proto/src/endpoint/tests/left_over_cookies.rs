//! RFC 9260 section 5.2.4 action B: cookies for another tag of the peer that are left over from the set-up.

use strandline_wire::chunk::{Chunk, CookieEcho, Init};

use super::super::Reconfigure;
use super::raw::*;
use super::*;
use crate::reconfiguration::Outcome;

/// A cookie of the client, and the tag of packets that carry it.
struct LeftOver {
    tag: VerificationTag,
    cookie: Vec<u8>,
}

/// When the INIT of another process comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    CookieWait,
    CookieEchoed,
}

/// A set-up during which an INIT with another tag arrives from the peer's address.
#[derive(Debug, Clone, Copy)]
struct SetUp {
    when: When,
    /// It has another Initial TSN than the peer.
    renumbers: bool,
    /// Data goes with the COOKIE ECHO.
    early: bool,
}

/// Sets up an association. Everything that `lost` selects is lost after the other INIT.
fn established(set_up: SetUp, lost: impl FnMut(&Sent) -> bool) -> (Pair, AssociationId, LeftOver) {
    let SetUp { when, renumbers, early } = set_up;
    let mut pair = Pair::configured(|config| config.extensions.peer_requests.reset_association = true);
    let client = pair.connect();
    if early {
        pair.send(CLIENT, client, 0, b"early");
    }
    pair.run_to(kind::INIT_ACK);
    let initial_tsn = init_ack(pair.wire.front().unwrap()).1;
    if when == When::CookieEchoed {
        pair.run_to(kind::COOKIE_ECHO);
    }
    let under_way = core::mem::take(&mut pair.wire);
    pair.now += Duration::from_millis(1);
    let initial_tsn = if renumbers { initial_tsn + 1000 } else { initial_tsn };
    let left_over = LeftOver::ask(&mut pair, init(initial_tsn));
    pair.wire = under_way;
    pair.now += Duration::from_millis(1);
    pair.run_dropping(lost);
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
    (pair, client, left_over)
}

impl LeftOver {
    /// Lets the client answer an INIT of the server's address.
    fn ask(pair: &mut Pair, init: Init<'_>) -> Self {
        let sent = pair.forge(SERVER, (PORT, 5000), VerificationTag(0), |packet| assert!(packet.push(&init)));
        pair.deliver(&sent);
        let (tag, _, cookie) = init_ack(&pair.wire.pop_front().expect("an INIT ACK"));
        Self { tag, cookie }
    }

    fn echo(&self, pair: &Pair) -> Sent {
        let echo = CookieEcho { cookie: &self.cookie };
        pair.forge(SERVER, (PORT, 5000), self.tag, |packet| assert!(packet.push(&echo)))
    }

    /// Uses the cookie. Returns true if the client has left its peer.
    fn draws_away(&self, pair: &mut Pair, client: AssociationId) -> bool {
        let status = |pair: &Pair| pair.hosts[CLIENT].endpoint.status(client).unwrap();
        let before = status(pair);
        let sent = self.echo(pair);
        pair.deliver(&sent);
        pair.run();
        status(pair).peer_tag != before.peer_tag
    }
}

/// Asserts that messages arrive in both directions, and that the association lasts.
fn assert_works(pair: &mut Pair, client: AssociationId) {
    let server = pair.accepted();
    for (host, id, to, there) in [(CLIENT, client, SERVER, server), (SERVER, server, CLIENT, client)] {
        pair.send(host, id, 0, b"still here");
        pair.pass(Duration::from_secs(1));
        assert_eq!(pair.recv(to, there).unwrap().data, "still here");
    }
    pair.pass(Duration::from_secs(300));
    assert_eq!((pair.state(CLIENT, client), pair.state(SERVER, server)), ("ESTABLISHED", "ESTABLISHED"));
    assert_eq!(pair.hosts[CLIENT].endpoint.stats().restarts, 0);
}

/// The peer has answered the COOKIE ECHO since the cookie was made.
#[test]
fn cookie_older_than_the_echo_is_left_over() {
    for renumbers in [false, true] {
        let (mut pair, client, cookie) =
            established(SetUp { when: When::CookieWait, renumbers, early: false }, |_| false);
        assert!(!cookie.draws_away(&mut pair, client), "renumbers: {renumbers}");
        assert_works(&mut pair, client);
    }
}

/// The COOKIE ECHO may have been answered before the other INIT was sent. A HEARTBEAT asks the peer at once.
#[test]
fn answered_heartbeat_makes_cookies_left_over() {
    for renumbers in [false, true] {
        let (mut pair, client, cookie) =
            established(SetUp { when: When::CookieEchoed, renumbers, early: false }, |_| false);
        assert!(!cookie.draws_away(&mut pair, client), "renumbers: {renumbers}");
        assert_works(&mut pair, client);
    }
}

#[test]
fn acknowledged_data_makes_cookies_left_over() {
    for renumbers in [false, true] {
        let (mut pair, client, cookie) =
            established(SetUp { when: When::CookieEchoed, renumbers, early: false }, has(kind::HEARTBEAT));
        pair.send(CLIENT, client, 0, b"asks");
        pair.run();
        let server = pair.accepted();
        assert_eq!(pair.recv(SERVER, server).unwrap().data, "asks");
        assert!(!cookie.draws_away(&mut pair, client), "renumbers: {renumbers}");
        assert_works(&mut pair, client);
    }
}

/// Data that went with the COOKIE ECHO may have been acknowledged before the other INIT was sent.
#[test]
fn early_data_proves_nothing() {
    for renumbers in [false, true] {
        let set_up = SetUp { when: When::CookieEchoed, renumbers, early: true };
        let (mut pair, client, cookie) = established(set_up, has(kind::HEARTBEAT));
        assert_eq!(pair.hosts[CLIENT].endpoint.paths(client).unwrap()[0].flight, 0, "it is acknowledged");
        assert!(cookie.draws_away(&mut pair, client), "renumbers: {renumbers}");
    }
}

/// A process that restarts behind its COOKIE ACK answers nothing any more: the next one gets the association.
#[test]
fn cookie_of_the_next_process_is_accepted() {
    for renumbers in [false, true] {
        let (mut pair, client, cookie) =
            established(SetUp { when: When::CookieEchoed, renumbers, early: false }, has(kind::HEARTBEAT));
        assert!(cookie.draws_away(&mut pair, client), "renumbers: {renumbers}");
        assert_eq!(pair.hosts[CLIENT].endpoint.status(client).unwrap().peer_tag, RAW_TAG);
    }
}

/// How a process gets an association by its own COOKIE ECHO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// Action D in COOKIE-ECHOED: set-ups with one tag that cross.
    Duplicate,
    /// Action B in COOKIE-ECHOED.
    Collision,
    /// Action B once the association is established.
    LateCollision,
    /// Action A in its place, as it numbers its data anew.
    Restart,
}

/// The process that got the association has answered an INIT ACK that is newer than the other cookie.
#[test]
fn cookies_older_than_the_peers_are_left_over() {
    for by in [By::Duplicate, By::Collision, By::LateCollision, By::Restart] {
        let mut pair = Pair::new();
        let client = pair.connect();
        pair.run_to(kind::INIT_ACK);
        let (_, initial_tsn, _) = init_ack(pair.wire.front().unwrap());
        let answer = chunks(pair.wire.front().unwrap()).remove(0);
        let Chunk::InitAck(Init { initiate_tag: server_tag, .. }) = answer else { panic!("{answer:?}") };
        pair.run_to(kind::COOKIE_ECHO);
        let under_way = core::mem::take(&mut pair.wire);
        pair.now += Duration::from_millis(1);
        let older = LeftOver::ask(&mut pair, Init { initiate_tag: VerificationTag(77), ..init(initial_tsn) });
        pair.now += Duration::from_millis(1);
        let initiate_tag = if by == By::Duplicate { server_tag } else { RAW_TAG };
        let initial_tsn = if by == By::Restart { initial_tsn + 1000 } else { initial_tsn };
        let newer = LeftOver::ask(&mut pair, Init { initiate_tag, ..init(initial_tsn) });
        if matches!(by, By::LateCollision | By::Restart) {
            pair.wire = under_way;
            pair.run_dropping(has(kind::HEARTBEAT));
        }
        let sent = newer.echo(&pair);
        pair.deliver(&sent);
        pair.run_dropping(|_| true);
        let peer_tag = |pair: &Pair| pair.hosts[CLIENT].endpoint.status(client).unwrap().peer_tag;
        assert_eq!((pair.state(CLIENT, client), peer_tag(&pair)), ("ESTABLISHED", initiate_tag), "{by:?}");
        assert!(!older.draws_away(&mut pair, client), "{by:?}");
    }
}

/// A reset of all numbers (RFC 6525) that the peer asks for proves nothing, and takes nothing away that was proven
/// before. The response to our own is an answer.
#[test]
fn cookies_after_a_reset_of_all_numbers() {
    for (host, acknowledged) in [(SERVER, false), (SERVER, true), (CLIENT, false)] {
        let set_up = SetUp { when: When::CookieEchoed, renumbers: false, early: false };
        let (mut pair, client, cookie) = established(set_up, has(kind::HEARTBEAT));
        let server = pair.accepted();
        if acknowledged {
            pair.send(CLIENT, client, 0, b"asks");
            pair.run();
        }
        pair.hosts[CLIENT].events.clear();
        let (now, id) = (pair.now, [client, server][host]);
        Reconfigure::ResetAssociation.ask(&mut pair.hosts[host].endpoint, now, id).unwrap();
        pair.run();
        let events = &pair.hosts[CLIENT].events;
        let performed =
            |event: &Event| matches!(event, Event::AssociationReset { outcome: Outcome::Performed, .. });
        assert!(events.iter().any(|(_, event)| performed(event)), "{events:?}");
        let answered = acknowledged || host == CLIENT;
        assert_eq!(cookie.draws_away(&mut pair, client), !answered, "{host}, acknowledged: {acknowledged}");
    }
}
