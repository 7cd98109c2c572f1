//! Dynamic streams that are opened once the INIT ACK has come (RFC 9260 section 5.1 C): the first request travels with
//! the COOKIE ECHO.

use core::mem::take;

use strandline_wire::cause::Causes;
use strandline_wire::chunk::{Abort, CookieAck, Init, InitAck};
use strandline_wire::number::Tsn;
use strandline_wire::parameter::Parameters;

use super::raw::{AnyChunk, client_tag, init};
use super::*;
use crate::endpoint::DynamicStreams;
use crate::reconfiguration::{DynamicStreamsEvent, Outcome};

/// Delay of the link in one direction.
const HALF: Duration = Duration::from_millis(30);
const FIRST: StreamId = StreamId(1);

fn streams(pair: &mut Pair, host: usize, id: AssociationId) -> DynamicStreams<'_> {
    DynamicStreams::of(&mut pair.hosts[host].endpoint, id)
}

fn connect(pair: &mut Pair) -> AssociationId {
    let client = pair.connect();
    streams(pair, CLIENT, client).begin(FIRST).unwrap();
    client
}

/// Passes a packet to its host, whose application can then act before anything is sent.
fn hand_over(pair: &mut Pair, sent: &Sent) {
    let to = usize::from(sent.destination.ip() == pair.hosts[SERVER].addresses[0].ip());
    let destination = Some(sent.destination.ip());
    let datagram = Datagram { source: sent.source, destination, bytes: &sent.bytes, ecn: 0 };
    pair.hosts[to].endpoint.handle_datagram(pair.now, datagram);
    let host = &mut pair.hosts[to];
    host.events.extend(core::iter::from_fn(|| host.endpoint.poll_event()));
}

fn has_agreed(pair: &Pair) -> bool {
    let agreed = |(_, event): &(_, Event)| *event == Event::DynamicStreams(DynamicStreamsEvent::Agreed);
    pair.hosts[CLIENT].events.iter().any(agreed)
}

/// Returns the first stream that the client opens.
fn own_stream(pair: &mut Pair, client: AssociationId) -> u16 {
    if streams(pair, CLIENT, client).opens_even().unwrap() { 2 } else { 1 }
}

/// Delivers packets, and fires timers when there are none, until the server has an association.
fn accept(pair: &mut Pair) -> AssociationId {
    let end = pair.now + Duration::from_secs(10);
    let accepted = |(id, event): &(_, Event)| matches!(event, Event::Established { .. }).then_some(*id);
    while pair.now < end {
        pair.collect();
        if let Some(server) = pair.hosts[SERVER].events.iter().find_map(accepted) {
            return server;
        }
        if let Some(sent) = pair.wire.pop_front() {
            pair.deliver(&sent);
            continue;
        }
        pair.now = pair.hosts.iter().filter_map(|host| host.endpoint.poll_timeout()).min().unwrap();
        for host in &mut pair.hosts {
            host.endpoint.handle_timeout(pair.now);
        }
    }
    panic!("no association: {:?}", pair.kinds());
}

/// A client that sends a request on a stream as soon as it can open one, or a moment after what is sent then, and a
/// server that answers at once.
struct Exchange {
    pair: Pair,
    client: AssociationId,
    server: Option<AssociationId>,
    later: bool,
    requested: bool,
    requests: usize,
    answers: usize,
}

impl Exchange {
    fn new(later: bool) -> Self {
        let mut pair = Pair::new();
        let client = connect(&mut pair);
        Self { pair, client, server: None, later, requested: false, requests: 0, answers: 0 }
    }

    /// Lets both applications act.
    fn act(&mut self) {
        let Self { pair, client, .. } = self;
        if has_agreed(pair) && !take(&mut self.later) && !self.requested {
            self.requested = true;
            let stream = own_stream(pair, *client);
            pair.send(CLIENT, *client, stream, b"request");
        }
        let accepted = |(id, event): &(_, Event)| matches!(event, Event::Established { .. }).then_some(*id);
        self.server = self.server.or_else(|| pair.hosts[SERVER].events.iter().find_map(accepted));
        while let Some(server) = self.server
            && let Some(message) = pair.hosts[SERVER].endpoint.recv(pair.now, server)
        {
            self.requests += 1;
            pair.send(SERVER, server, message.stream.0, b"answer");
        }
        while pair.hosts[CLIENT].endpoint.recv(pair.now, *client).is_some() {
            self.answers += 1;
        }
    }

    /// Runs over a link with a delay that loses one packet, for ten seconds. Returns when the answer came.
    fn run(&mut self, lost: Option<usize>) -> Time {
        let (end, mut answered) = (Time::ZERO + Duration::from_secs(10), None);
        let (mut link, mut count) = (VecDeque::new(), 0);
        loop {
            self.act();
            self.pair.collect();
            self.act();
            self.pair.collect();
            for sent in self.pair.wire.drain(..) {
                if Some(count) != lost {
                    link.push_back((self.pair.now + HALF, sent));
                }
                count += 1;
            }
            if self.answers > 0 {
                answered.get_or_insert(self.pair.now);
            }
            let timer = self.pair.hosts.iter().filter_map(|host| host.endpoint.poll_timeout()).min();
            let arrival = link.front().map(|(at, _)| *at);
            match (arrival, timer) {
                (Some(at), timer) if at <= end && timer.is_none_or(|timer| at <= timer) => {
                    self.pair.now = at;
                    let (_, sent) = link.pop_front().unwrap();
                    hand_over(&mut self.pair, &sent);
                }
                (_, Some(at)) if at <= end => {
                    self.pair.now = self.pair.now.max(at);
                    for host in &mut self.pair.hosts {
                        host.endpoint.handle_timeout(self.pair.now);
                    }
                }
                _ => return answered.expect("an answer"),
            }
        }
    }

    fn assert_once(&self) {
        assert_eq!((self.requests, self.answers), (1, 1));
        assert_eq!(self.pair.hosts[SERVER].endpoint.stats().established, 1);
        let status = self.pair.hosts[CLIENT].endpoint.status(self.client).unwrap();
        assert_eq!((status.state.name(), status.send_buffered), ("ESTABLISHED", 0));
    }
}

/// Two round trips until the answer, as over TCP: one for INIT and INIT ACK, one for the request and all the rest.
#[test]
fn the_request_travels_with_the_cookie_echo() {
    for later in [false, true] {
        let mut exchange = Exchange::new(later);
        assert_eq!(exchange.run(None), Time::ZERO + 4 * HALF, "later: {later}");
        exchange.assert_once();
        let kinds = exchange.pair.kinds();
        let alone = [vec![kind::INIT], vec![kind::INIT_ACK], vec![kind::COOKIE_ECHO]];
        let echo = vec![kind::COOKIE_ECHO, kind::DATA];
        if later {
            assert_eq!((&kinds[..3], &kinds[3]), (&alone[..], &echo));
        } else {
            let answer = vec![kind::COOKIE_ACK, kind::SACK, kind::DATA];
            assert_eq!((&kinds[..2], &kinds[2], &kinds[3]), (&alone[..2], &echo, &answer));
        }
    }
}

/// Whatever packet is lost, the request is delivered once. It is sent again only if it was lost itself, or its
/// acknowledgement was.
#[test]
fn any_set_up_packet_may_be_lost() {
    for later in [false, true] {
        for lost in 0..7 {
            let mut exchange = Exchange::new(later);
            let took = exchange.run(Some(lost)).since(Time::ZERO);
            exchange.assert_once();
            // T1 begins with a second, and a probe of the server takes less.
            assert!(took < Duration::from_millis(1_500), "{took:?}: packet {lost}, later: {later}");
            let again = exchange.pair.hosts[CLIENT].endpoint.status(exchange.client).unwrap();
            let late = usize::from(later);
            let may_repeat = [2 + late, 3 + 2 * late].contains(&lost);
            assert!(
                again.stats.retransmissions <= u32::from(may_repeat),
                "{} retransmissions: packet {lost}, later: {later}",
                again.stats.retransmissions
            );
        }
    }
}

/// A peer that refuses the cookie ends the association, and what was sent on its streams has failed.
#[test]
fn an_abort_fails_early_messages() {
    let mut pair = Pair::new();
    let client = connect(&mut pair);
    pair.run_to(kind::INIT_ACK);
    let init_ack = pair.wire.pop_front().unwrap();
    hand_over(&mut pair, &init_ack);
    let stream = own_stream(&mut pair, client);
    for stream in [stream, stream + 2] {
        pair.send(CLIENT, client, stream, b"request");
    }
    pair.collect();
    let tag = init_ack.tag();
    let abort = pair.forge(SERVER, (PORT, 5000), tag, |packet| {
        assert!(packet.push(&Abort { tag_reflected: false, causes: Causes::new(&[]) }));
    });
    pair.deliver(&abort);
    assert!(matches!(pair.closed(CLIENT), Some(CloseReason::PeerAborted { .. })));
    let failed = pair.hosts[CLIENT].events.iter().filter_map(|(_, event)| match event {
        Event::SendFailed(failed) => Some(failed.info.stream.0),
        _ => None,
    });
    assert_eq!(failed.collect::<Vec<_>>(), [stream, stream + 2]);
}

/// A stale cookie begins the set-up again, with the data. The streams remain those of the client, for which the
/// tags must say so: another INIT is sent for other tags. Requests to close streams are numbered from the peer's new
/// initial TSN.
#[test]
fn a_stale_cookie_keeps_streams() {
    let mut repeated = 0;
    for round in 0..16 {
        let mut pair = Pair::configured(|config| config.cookie_lifetime = Duration::from_millis(100));
        // Each round draws other tags.
        for _ in 0..round {
            let client = pair.connect();
            pair.run();
            pair.hosts[CLIENT].endpoint.abort(pair.now, client, bytes::Bytes::new()).unwrap();
            pair.hosts[CLIENT].endpoint.release(client);
            pair.run();
            pair.hosts[CLIENT].events.clear();
            pair.hosts[SERVER].events.clear();
        }
        let before = pair.log.len();
        let client = connect(&mut pair);
        pair.run_to(kind::INIT_ACK);
        let init_ack = pair.wire.pop_front().unwrap();
        hand_over(&mut pair, &init_ack);
        let stream = own_stream(&mut pair, client);
        pair.send(CLIENT, client, stream, b"request");
        let now = pair.now;
        streams(&mut pair, CLIENT, client).close(now, StreamId(stream));
        pair.collect();
        pair.now += Duration::from_millis(150);
        let server = accept(&mut pair);
        streams(&mut pair, SERVER, server).begin(FIRST).unwrap();
        pair.run();
        assert_eq!(pair.hosts[SERVER].endpoint.stats().cookies_stale, 1);
        assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
        assert_eq!(own_stream(&mut pair, client), stream, "round {round}");
        let inits = pair.log[before..].iter().filter(|sent| has(kind::INIT)(sent)).count();
        repeated += inits - 2;
        assert_eq!(pair.recv(SERVER, server).unwrap().stream, StreamId(stream));
        assert_eq!(pair.recv(SERVER, server), None);
        let now = pair.now;
        streams(&mut pair, SERVER, server).close(now, StreamId(stream));
        pair.pass(Duration::from_secs(10));
        for host in [CLIENT, SERVER] {
            let outcomes = pair.hosts[host].events.iter().filter_map(|(_, event)| match event {
                Event::DynamicStreams(DynamicStreamsEvent::Closed { outcome, .. }) => Some(*outcome),
                _ => None,
            });
            assert_eq!(outcomes.collect::<Vec<_>>(), [Outcome::Performed], "host {host}, round {round}");
        }
    }
    assert!(repeated > 0, "some tags were of the other parity");
}

/// A client whose first INIT ACK has come, and which may send a request on a stream then. The server has accepted it,
/// and all its answers are lost.
fn unanswered(sends: bool) -> (Pair, AssociationId) {
    let mut pair = Pair::new();
    let client = connect(&mut pair);
    pair.run_to(kind::INIT_ACK);
    let init_ack = pair.wire.pop_front().unwrap();
    hand_over(&mut pair, &init_ack);
    if sends {
        let stream = own_stream(&mut pair, client);
        pair.send(CLIENT, client, stream, b"request");
    }
    pair.run_dropping(|sent| sent.source == address(SERVER, 0));
    assert_eq!(pair.state(CLIENT, client), "COOKIE-ECHOED");
    let server = pair.accepted();
    assert_eq!(pair.recv(SERVER, server).is_some(), sends);
    (pair, client)
}

/// The peer has executed a request, restarts, and sets up an association itself before its answer comes. The new
/// process must not get the request, too. Without a request nothing is wrong.
#[test]
fn a_restarted_peer_gets_no_second_request() {
    for (seed, sends) in [(90, true), (91, true), (92, true), (93, true), (94, false), (95, false)] {
        let (mut pair, client) = unanswered(sends);
        pair.now += HALF;
        pair.hosts[SERVER].endpoint = Endpoint::new(config(1, SERVER), [seed; 32], pair.now).unwrap();
        pair.hosts[SERVER].events.clear();
        pair.log.clear();
        let remotes = vec![address(CLIENT, 0)];
        let request = Connect { local_port: PORT, peer_port: 5000, remotes, local: Vec::new(), config: None };
        let now = pair.now;
        let server = pair.hosts[SERVER].endpoint.connect(now, request).unwrap();
        // Time enough for T3-rtx.
        pair.pass(Duration::from_secs(10));
        assert_eq!(pair.recv(SERVER, server), None, "seed {seed}");
        if !sends {
            assert_eq!(
                (pair.state(CLIENT, client), pair.state(SERVER, server)),
                ("ESTABLISHED", "ESTABLISHED")
            );
            continue;
        }
        let reason = "restarted during the set-up, and may have got data before";
        assert_eq!(pair.closed(CLIENT), Some(&CloseReason::ProtocolViolation(reason)));
        assert!(matches!(pair.closed(SERVER), Some(CloseReason::PeerAborted { .. })));
        let failed = |(_, event): &(_, Event)| matches!(event, Event::SendFailed(_));
        assert_eq!(pair.hosts[CLIENT].events.iter().filter(|event| failed(event)).count(), 1);
        let sent = [vec![kind::INIT], vec![kind::INIT_ACK], vec![kind::COOKIE_ECHO], vec![kind::ABORT]];
        assert_eq!(pair.kinds(), sent, "seed {seed}");
    }
}

/// The COOKIE ACK of a process comes before the COOKIE ECHO of the next one: the association is established, and
/// restarts.
#[test]
fn a_peer_that_restarts_behind_its_cookie_ack() {
    for seed in 90..94 {
        let (mut pair, client) = unanswered(true);
        pair.hosts[SERVER].endpoint = Endpoint::new(config(1, SERVER), [seed; 32], pair.now).unwrap();
        pair.hosts[SERVER].events.clear();
        let remotes = vec![address(CLIENT, 0)];
        let request = Connect { local_port: PORT, peer_port: 5000, remotes, local: Vec::new(), config: None };
        let now = pair.now;
        let server = pair.hosts[SERVER].endpoint.connect(now, request).unwrap();
        pair.run_to(kind::COOKIE_ECHO);
        let echo = pair.wire.pop_front().unwrap();
        let tag = pair.hosts[CLIENT].endpoint.status(client).unwrap().local_tag;
        let late = pair.forge(SERVER, (PORT, 5000), tag, |packet| assert!(packet.push(&CookieAck)));
        pair.deliver(&late);
        assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
        pair.deliver(&echo);
        // Time enough for T3-rtx.
        pair.pass(Duration::from_secs(10));
        assert_eq!(pair.recv(SERVER, server), None, "seed {seed}: the request of the earlier process");
        let is = |what: fn(&Event) -> bool| move |(_, event): &&(_, Event)| what(event);
        let count = |what| pair.hosts[CLIENT].events.iter().filter(is(what)).count();
        assert_eq!(count(|event| matches!(event, Event::Restarted { .. })), 1);
        assert_eq!(count(|event| matches!(event, Event::SendFailed(_))), 1);
        for (host, id, to, other) in [(CLIENT, client, SERVER, server), (SERVER, server, CLIENT, client)] {
            pair.send(host, id, 0, b"anew");
            pair.pass(Duration::from_secs(1));
            assert_eq!(pair.recv(to, other).unwrap().data, &b"anew"[..]);
        }
    }
}

/// The peer answers an INIT and then begins a set-up itself, before the COOKIE ECHO has come, which it discards. Both
/// set-ups become one association (section 5.2.4 action B) that delivers the request once, unless the peer's new tag
/// gives the stream to the peer.
#[test]
fn a_peers_set_up_may_cross_a_request() {
    let mut established = 0;
    for seed in 60..76 {
        let mut pair = Pair::new();
        pair.hosts[SERVER].endpoint = Endpoint::new(config(1, SERVER), [seed; 32], pair.now).unwrap();
        pair.hosts[SERVER].endpoint.listen(PORT).unwrap();
        let client = connect(&mut pair);
        pair.run_to(kind::INIT);
        pair.now += HALF;
        pair.run_to(kind::INIT_ACK);
        let init_ack = pair.wire.pop_front().unwrap();
        pair.now += HALF;
        let remotes = vec![address(CLIENT, 0)];
        let request = Connect { local_port: PORT, peer_port: 5000, remotes, local: Vec::new(), config: None };
        let now = pair.now;
        let server = pair.hosts[SERVER].endpoint.connect(now, request).unwrap();
        hand_over(&mut pair, &init_ack);
        let stream = own_stream(&mut pair, client);
        pair.send(CLIENT, client, stream, b"request");
        pair.log.clear();
        pair.collect();
        assert!(pair.log.iter().any(|sent| has(kind::COOKIE_ECHO)(sent) && has(kind::DATA)(sent)));
        pair.pass(Duration::from_secs(10));
        if pair.closed(CLIENT).is_some() {
            assert!(matches!(pair.closed(SERVER), Some(CloseReason::PeerAborted { .. })), "seed {seed}");
            assert_eq!(pair.recv(SERVER, server), None, "seed {seed}");
            continue;
        }
        established += 1;
        assert_eq!((pair.state(CLIENT, client), pair.state(SERVER, server)), ("ESTABLISHED", "ESTABLISHED"));
        assert_eq!(own_stream(&mut pair, client), stream, "seed {seed}");
        assert_eq!(pair.recv(SERVER, server).unwrap().data, "request", "seed {seed}");
        assert_eq!(pair.recv(SERVER, server), None, "seed {seed}");
        assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 1);
    }
    assert!(established > 0, "the tag keeps the stream at some seeds");
}

/// A peer that always answers with the same tag, by which the streams are its own. The INIT is sent again at once, and
/// then by T1-init, first after the RTO of 200 ms and then backed off.
#[test]
fn other_tags_are_asked_for_slowly() {
    let mut pair = Pair::new();
    let client = connect(&mut pair);
    let own = client_tag(&mut pair);
    let cookie = [0, 7, 0, 8, 1, 2, 3, 4];
    let answer = |tag| Init { initiate_tag: tag, parameters: Parameters::new(&cookie), ..init(Tsn(1)) };
    let forge = |pair: &Pair, tag| {
        let ack = InitAck(answer(VerificationTag(tag)));
        pair.forge(SERVER, (PORT, 5000), own, |packet| assert!(packet.push(&ack)))
    };
    let first = forge(&pair, u32::MAX);
    pair.deliver(&first);
    assert_eq!(pair.state(CLIENT, client), "COOKIE-ECHOED");
    let error = AnyChunk { kind: kind::ERROR, flags: 0, value: &[0, 3, 0, 8, 0, 0, 0, 1] };
    let stale = pair.forge(SERVER, (PORT, 5000), own, |packet| assert!(packet.push(&error)));
    pair.wire.clear();
    pair.log.clear();
    pair.deliver(&stale);
    let (begun, mut sent_at) = (pair.now, Vec::new());
    while pair.closed(CLIENT).is_none() {
        while let Some(sent) = pair.wire.pop_front() {
            assert_eq!(sent.kinds(), [kind::INIT]);
            sent_at.push(pair.now.since(begun));
            let answer = forge(&pair, 1);
            pair.deliver(&answer);
        }
        if let Some(next) = pair.hosts[CLIENT].endpoint.poll_timeout() {
            pair.now = next;
            pair.hosts[CLIENT].endpoint.handle_timeout(next);
            pair.collect();
        }
    }
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::TimedOut));
    // Max.Init.Retransmits.
    assert_eq!(sent_at.len(), 1 + 8);
    let within_a_second = sent_at.iter().filter(|at| **at < Duration::from_secs(1)).count();
    assert_eq!(within_a_second, 3, "{sent_at:?}");
    let gaps: Vec<_> = sent_at[1..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.windows(2).all(|pair| pair[1] > pair[0] || pair[1] >= Duration::from_secs(60)), "{gaps:?}");
}
