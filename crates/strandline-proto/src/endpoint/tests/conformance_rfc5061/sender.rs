//! Requests of an application, and the ASCONF chunks that carry them (sections 5.1 and 5.3).

use super::*;
use crate::config::ErrorDetectionMethod;

#[test]
fn added_address_carries_data_after_its_confirmation() {
    let (mut pair, client, server) = established();
    let new = new_address(CLIENT, 0);
    gain(&mut pair, CLIENT, new);
    let add = AddressRequest::Add(new.ip());
    request(&mut pair, CLIENT, client, &[add]).unwrap();
    pair.run();
    assert_eq!(outcomes(&pair, CLIENT), [(add, AddressOutcome::Performed)]);
    assert_eq!(changes(&pair, SERVER)[0], (new, PathChange::Added));
    pair.pass(Duration::from_secs(1));
    assert!(changes(&pair, SERVER).contains(&(new, PathChange::Confirmed)));
    let delete = AddressRequest::Delete(address(CLIENT, 0).ip());
    request(&mut pair, CLIENT, client, &[delete]).unwrap();
    pair.run();
    assert_eq!(outcomes(&pair, CLIENT)[1], (delete, AddressOutcome::Performed));
    assert_eq!(paths(&pair, SERVER, server), [(new, Reachability::Active)]);
    lose(&mut pair, CLIENT, address(CLIENT, 0));
    for (host, id, to, there) in [(CLIENT, client, SERVER, server), (SERVER, server, CLIENT, client)] {
        pair.send(host, id, 0, b"over the new address");
        pair.pass(Duration::from_secs(1));
        assert_eq!(pair.recv(to, there).unwrap().data, "over the new address");
    }
}

fn own(pair: &Pair, host: usize, id: AssociationId) -> Vec<IpAddr> {
    let now_sent = pair.log.iter().filter(|sent| sent.tag() != VerificationTag(0));
    let _ = (now_sent, id);
    pair.hosts[host].addresses.iter().map(SocketAddr::ip).collect()
}

/// Returns the ASCONF chunks that were sent: number, Address Parameter, correlation IDs and kinds of the requests.
pub(super) fn asconfs(sent: &[Sent]) -> Vec<(u32, IpAddr, Vec<(u16, u32)>)> {
    let of = |chunk: Chunk<'_>| match chunk {
        Chunk::Asconf(asconf) => {
            let raws = asconf.parameters.iter().map(|raw| raw.unwrap());
            let requests = raws.map(|raw| (raw.kind, raw.parse_asconf().unwrap().unwrap().id())).collect();
            Some((asconf.number.0, asconf.address, requests))
        }
        _ => None,
    };
    sent.iter().flat_map(|sent| chunks(sent).into_iter().filter_map(of).collect::<Vec<_>>()).collect()
}

/// Answers the server's latest ASCONF.
pub(super) fn acknowledge(peer: &mut Peer, responses: &[AsconfParameter<'_>]) -> Vec<Sent> {
    let number = asconfs(&peer.pair().log).last().expect("an ASCONF").0;
    let responses = encode(responses);
    let ack = AsconfAck { number: AsconfNumber(number), responses: Parameters::new(&responses) };
    peer.inner.say_behind_auth(&[&ack])
}

/// A server's request with a hand-made peer.
pub(super) fn ask(peer: &mut Peer, requests: &[AddressRequest]) -> Vec<Sent> {
    let id = peer.id();
    request(peer.pair(), SERVER, id, requests).unwrap();
    peer.inner.raw.heard()
}

pub(super) fn results(peer: &mut Peer) -> Vec<AddressOutcome> {
    peer.pair().collect();
    outcomes(peer.pair(), SERVER).into_iter().map(|(_, outcome)| outcome).collect()
}

/// RFC 9653 section 5.2 rule 3: an ASCONF has a checksum although the peer accepts zero; the ASCONF-ACK needs none.
#[test]
fn asconf_has_a_checksum_where_others_have_none() {
    let configs = [CLIENT, SERVER].map(|host| {
        let mut config = with_dynamic_addresses(1, host);
        let mut association = (*config.association).clone();
        association.extensions.zero_checksum = Some(ErrorDetectionMethod::SctpOverDtls);
        config.association = Arc::new(association);
        config
    });
    let [client, server] = configs;
    let (mut pair, client, _) = Pair::with(client, server).establish();
    let new = new_address(CLIENT, 0);
    gain(&mut pair, CLIENT, new);
    request(&mut pair, CLIENT, client, &[AddressRequest::Add(new.ip())]).unwrap();
    pair.run();
    let sent = |kind| pair.log.iter().rev().find(|sent| has(kind)(sent)).expect("a packet with the chunk");
    let verified = |kind| Packet::parse(&sent(kind).bytes).unwrap().verify_checksum();
    assert!(verified(kind::ASCONF));
    assert!(!verified(kind::ASCONF_ACK));
}

/// Section 5.1 rules A1 to A3: numbers from the initial TSN on, correlation IDs of their own, one chunk
/// outstanding, and what is asked for meanwhile goes together into the next one.
#[test]
fn rule_a3_one_chunk_is_outstanding() {
    let mut peer = Peer::new(1);
    let [a, b, c] = [0, 1, 2].map(|n| new_address(SERVER, n).ip());
    let sent = ask(&mut peer, &[AddressRequest::Add(a)]);
    let first = peer.inner.raw.server_tsn.0;
    let home = address(SERVER, 0).ip();
    assert_eq!(asconfs(&sent), [(first, home, vec![(0xc001, 0)])]);
    assert!(ask(&mut peer, &[AddressRequest::Add(b), AddressRequest::SetPrimary(b)]).is_empty());
    assert!(ask(&mut peer, &[AddressRequest::Add(c)]).is_empty());
    let sent = acknowledge(&mut peer, &[]);
    let all = vec![(0xc001, 1), (0xc004, 2), (0xc001, 3)];
    assert_eq!(asconfs(&sent), [(first.wrapping_add(1), home, all)]);
    acknowledge(&mut peer, &[]);
    // Rule A8: without a response all are performed.
    assert_eq!(results(&mut peer), [AddressOutcome::Performed; 4]);
}

/// Rules B1 to B5: the same chunk again, with the RTO doubled, until the association ends.
#[test]
fn rule_b4_chunk_is_sent_again_unchanged() {
    let mut peer = Peer::new(1);
    let sent = ask(&mut peer, &[AddressRequest::Add(new_address(SERVER, 0).ip())]);
    let asked = asconfs(&sent);
    // Heartbeats are answered, so that only the ASCONF counts.
    let mut times = Vec::new();
    for _ in 0..600 {
        let from = peer.pair().log.len();
        peer.inner.raw.wait(Duration::from_millis(500));
        let again = asconfs(&peer.pair().log[from..]);
        assert!(again.iter().all(|chunk| *chunk == asked[0]));
        let now = peer.pair().now;
        times.extend(again.iter().map(|_| now));
    }
    assert!(times.len() >= 8, "{times:?}");
    assert!(times[1].since(times[0]) < times[2].since(times[1]));
    assert_eq!(peer.state(), "CLOSED");
    assert_eq!(results(&mut peer), [AddressOutcome::Failed]);
}

/// Rule B4: another path, if there is one.
#[test]
fn rule_b4_other_path_is_used() {
    let mut peer = Peer::new(1);
    let new = new_address(CLIENT, 0);
    assert_eq!(peer.ask(&[add(1, new)]), []);
    peer.confirm(new);
    ask(&mut peer, &[AddressRequest::Add(new_address(SERVER, 0).ip())]);
    peer.inner.raw.wait(Duration::from_secs(20));
    let destinations =
        peer.pair().log.iter().filter(|sent| has(kind::ASCONF)(sent)).map(|sent| sent.destination);
    let destinations: Vec<_> = destinations.take(2).collect();
    assert_eq!(destinations, [address(CLIENT, 0), new]);
}

/// Rule A7: before an error without a response is a success, after it a failure, unless it is reported.
#[test]
fn rule_a7_requests_around_a_refused_one() {
    let mut peer = Peer::new(1);
    let all = [0, 1, 2, 3].map(|n| new_address(SERVER, n).ip());
    ask(&mut peer, &all.map(AddressRequest::Add));
    let shortage = AsconfParameter::Error { id: 1, causes: &[0, 0xa1, 0, 4] };
    acknowledge(&mut peer, &[shortage, AsconfParameter::Success { id: 3 }]);
    let refused = AddressOutcome::Refused { code: code::RESOURCE_SHORTAGE };
    let performed = AddressOutcome::Performed;
    assert_eq!(results(&mut peer), [performed, refused, refused, performed]);
    // Rule F10: what was refused is no local address.
    let (id, now) = (peer.id(), peer.pair().now);
    let _ = now;
    let local = peer.pair().hosts[SERVER].endpoint.addresses(id).local().unwrap().to_vec();
    assert_eq!(local, [address(SERVER, 0).ip(), all[0], all[3]]);
}

/// Rules F3a and F3b: what the peer does not know is not asked for again.
#[test]
fn rule_f3_unknown_requests_are_not_repeated() {
    let mut peer = Peer::new(1);
    let (id, new) = (peer.id(), new_address(SERVER, 0).ip());
    let home = address(SERVER, 0).ip();
    ask(&mut peer, &[AddressRequest::SetPrimary(home)]);
    let unknown = |id| AsconfParameter::Error { id, causes: &[0, 8, 0, 4] };
    acknowledge(&mut peer, &[unknown(0)]);
    let again = request(peer.pair(), SERVER, id, &[AddressRequest::SetPrimary(home)]);
    assert_eq!(again, Err(AddressError::NotSupported));
    ask(&mut peer, &[AddressRequest::Add(new)]);
    acknowledge(&mut peer, &[unknown(1)]);
    assert_eq!(
        request(peer.pair(), SERVER, id, &[AddressRequest::Add(new)]),
        Err(AddressError::NotSupported)
    );
    assert_eq!(results(&mut peer), [AddressOutcome::NotSupported; 2]);
}

/// Rule A9: a peer that does not know the chunk.
#[test]
fn rule_a9_unknown_chunk_stops_requests() {
    let mut peer = Peer::new(1);
    let (id, new) = (peer.id(), new_address(SERVER, 0).ip());
    ask(&mut peer, &[AddressRequest::Add(new)]);
    ask(&mut peer, &[AddressRequest::Delete(new)]);
    let causes = [0, 6, 0, 8, 0xc1, 0, 0, 4];
    peer.inner.raw.say_all(&[&strandline_wire::Error { causes: Causes::new(&causes) }]);
    assert_eq!(results(&mut peer), [AddressOutcome::NotSupported; 2]);
    assert_eq!(
        request(peer.pair(), SERVER, id, &[AddressRequest::Add(new)]),
        Err(AddressError::NotSupported)
    );
    let from = peer.pair().log.len();
    peer.inner.raw.wait(Duration::from_secs(100));
    assert!(asconfs(&peer.pair().log[from..]).is_empty(), "the timer is stopped");
}

/// Rule F1: the added address is no source of other packets before it is acknowledged, and packets to it are accepted.
#[test]
fn rule_f1_added_address_is_no_source_before() {
    let (mut pair, client, server) = established();
    let new = new_address(CLIENT, 0);
    gain(&mut pair, CLIENT, new);
    request(&mut pair, CLIENT, client, &[AddressRequest::Add(new.ip())]).unwrap();
    pair.send(CLIENT, client, 0, &[7; 5000]);
    pair.pass_dropping(Duration::from_secs(20), has(kind::ASCONF_ACK));
    let from_new = |sent: &&Sent| sent.source == new && !has(kind::ASCONF)(sent);
    assert_eq!(pair.log.iter().filter(from_new).count(), 0);
    assert!(pair.log.iter().any(|sent| sent.source == new && has(kind::ASCONF)(sent)), "it is tried in turn");
    // Data from the peer to the new address, before the answer arrives.
    assert_eq!(paths(&pair, SERVER, server).len(), 2);
    let now = pair.now;
    pair.hosts[SERVER].endpoint.set_primary(now, server, new.ip()).unwrap();
    pair.send(SERVER, server, 0, b"to the new address");
    pair.pass_dropping(Duration::from_secs(1), has(kind::ASCONF_ACK));
    assert_eq!(pair.recv(CLIENT, client).unwrap().data, "to the new address");
    pair.pass(Duration::from_secs(20));
    assert_eq!(outcomes(&pair, CLIENT), [(AddressRequest::Add(new.ip()), AddressOutcome::Performed)]);
}

/// Rule F4: a deleted address is no source from then on, and accepted until the answer arrives.
#[test]
fn rule_f4_deleted_address_is_no_source() {
    let (mut pair, client, server) =
        Pair::with(with_dynamic_addresses(2, CLIENT), with_dynamic_addresses(1, SERVER)).establish();
    pair.pass(Duration::from_secs(2));
    let gone = address(CLIENT, 0);
    request(&mut pair, CLIENT, client, &[AddressRequest::Delete(gone.ip())]).unwrap();
    let from = pair.log.len();
    pair.send(CLIENT, client, 0, &[7; 5000]);
    pair.pass_dropping(Duration::from_secs(2), has(kind::ASCONF));
    assert!(pair.log[from..].iter().all(|sent| sent.source != gone));
    pair.send(SERVER, server, 0, b"to the old address");
    pair.pass_dropping(Duration::from_secs(1), has(kind::ASCONF));
    assert!(pair.log[from..].iter().any(|sent| sent.destination == gone && has(kind::DATA)(sent)));
    assert_eq!(pair.recv(CLIENT, client).unwrap().data, "to the old address");
    pair.pass(Duration::from_secs(20));
    assert_eq!(outcomes(&pair, CLIENT), [(AddressRequest::Delete(gone.ip()), AddressOutcome::Performed)]);
    let now = pair.now;
    let _ = now;
    assert_eq!(pair.hosts[CLIENT].endpoint.addresses(client).local().unwrap(), [address(CLIENT, 1).ip()]);
}

/// Section 5.3.1: an ABORT to an address that is being deleted is ignored.
#[test]
fn abort_to_a_leaving_address_is_ignored() {
    let mut peer = Peer::new(2);
    let gone = address(SERVER, 0);
    ask(&mut peer, &[AddressRequest::Delete(gone.ip())]);
    let abort = |tag_reflected| strandline_wire::Abort { tag_reflected, causes: Causes::new(&[]) };
    peer.inner.raw.say_all(&[&abort(false)]);
    assert_eq!(peer.state(), "ESTABLISHED");
    let sent = peer.pair().forge(CLIENT, (RAW_PORT, PORT), RAW_TAG, |p| assert!(p.push(&abort(true))));
    peer.pair().deliver(&sent);
    assert_eq!(peer.state(), "ESTABLISHED");
    acknowledge(&mut peer, &[]);
    let mut sent = peer.pair().forge(CLIENT, (RAW_PORT, PORT), RAW_TAG, |p| assert!(p.push(&abort(true))));
    sent.destination = address(SERVER, 1);
    peer.pair().deliver(&sent);
    assert_eq!(peer.state(), "CLOSED");
}

/// Rule F5, and other requests that cannot be made.
#[test]
fn rule_f5_last_address_cannot_be_deleted() {
    let (mut pair, client, _) = established();
    let (home, new) = (address(CLIENT, 0).ip(), new_address(CLIENT, 0).ip());
    let multicast = IpAddr::from([224, 0, 0, 1]);
    for (requests, error) in [
        (vec![AddressRequest::Delete(home)], AddressError::LastAddress { address: home }),
        (
            vec![AddressRequest::Add(new), AddressRequest::Delete(home), AddressRequest::Delete(new)],
            AddressError::LastAddress { address: new },
        ),
        (
            vec![AddressRequest::Delete(home), AddressRequest::Add(new)],
            AddressError::LastAddress { address: home },
        ),
        (vec![AddressRequest::Add(home)], AddressError::AlreadyLocal { address: home }),
        (vec![AddressRequest::Delete(new)], AddressError::NotLocal { address: new }),
        (vec![AddressRequest::SetPrimary(new)], AddressError::NotLocal { address: new }),
        (vec![AddressRequest::Add(multicast)], AddressError::NotUnicast { address: multicast }),
        (vec![AddressRequest::SetPrimary(home); 17], AddressError::TooMany),
        ((0..8).map(|n| AddressRequest::Add(new_address(CLIENT, n).ip())).collect(), AddressError::TooMany),
    ] {
        assert_eq!(request(&mut pair, CLIENT, client, &requests), Err(error), "{requests:?}");
    }
    pair.collect();
    assert!(pair.wire.is_empty());
    assert_eq!(pair.hosts[CLIENT].endpoint.addresses(client).local().unwrap(), [home]);
    let stranger = AssociationId { slot: 99, generation: 0 };
    let unknown = request(&mut pair, CLIENT, stranger, &[AddressRequest::Add(new)]);
    assert!(matches!(unknown, Err(AddressError::UnknownAssociation(_))));
}

/// Section 5.3.2: the only address is replaced. Data waits until the peer knows the new one.
#[test]
fn only_address_is_replaced() {
    let (mut pair, client, server) = established();
    let (old, new) = (address(CLIENT, 0), new_address(CLIENT, 0));
    pair.send(SERVER, server, 0, &[9; 20_000]);
    pair.send(CLIENT, client, 0, &[7; 20_000]);
    pair.collect();
    lose(&mut pair, CLIENT, old);
    gain(&mut pair, CLIENT, new);
    request(&mut pair, CLIENT, client, &[AddressRequest::Add(new.ip()), AddressRequest::Delete(old.ip())])
        .unwrap();
    let from = pair.log.len();
    pair.send(CLIENT, client, 0, b"later");
    pair.pass_dropping(Duration::from_millis(500), has(kind::ASCONF));
    let early: Vec<_> =
        pair.log[from..].iter().filter(|sent| sent.source.ip() == new.ip()).map(Sent::kinds).collect();
    assert!(!early.is_empty() && early.iter().all(|kinds| kinds.contains(&kind::ASCONF)), "{early:?}");
    pair.pass(Duration::from_secs(60));
    assert_eq!(outcomes(&pair, CLIENT).iter().filter(|(_, o)| *o == AddressOutcome::Performed).count(), 2);
    assert_eq!(pair.recv(SERVER, server).unwrap().data.len(), 20_000);
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "later");
    assert_eq!(pair.recv(CLIENT, client).unwrap().data.len(), 20_000);
    assert_eq!(own(&pair, CLIENT, client), [new.ip()]);
    assert_eq!(paths(&pair, SERVER, server), [(new, Reachability::Active)]);
}

/// A HEARTBEAT that can't leave while the only address is replaced is no error of its path.
#[test]
fn heartbeat_without_a_source_waits() {
    let (mut pair, client, _) = established();
    let (old, new) = (address(CLIENT, 0), new_address(CLIENT, 0));
    lose(&mut pair, CLIENT, old);
    gain(&mut pair, CLIENT, new);
    request(&mut pair, CLIENT, client, &[AddressRequest::Add(new.ip()), AddressRequest::Delete(old.ip())])
        .unwrap();
    let now = pair.now;
    pair.hosts[CLIENT].endpoint.request_heartbeat(now, client, address(SERVER, 0).ip()).unwrap();
    pair.pass(Duration::from_secs(8));
    let paths = pair.hosts[CLIENT].endpoint.paths(client).unwrap();
    assert_eq!(outcomes(&pair, CLIENT).iter().filter(|(_, o)| *o == AddressOutcome::Performed).count(), 2);
    assert_eq!((paths[0].error_count, paths[0].state), (0, Reachability::Active));
    let lost = |(_, event): &(AssociationId, Event)| {
        matches!(event, Event::PathChanged { change: PathChange::PotentiallyFailed, .. })
    };
    assert!(!pair.hosts[CLIENT].events.iter().any(lost));
}

/// Behind a NAT: the addresses are named by nothing but the packet.
#[test]
fn wildcards_move_to_the_source() {
    let (mut pair, client, server) = established();
    let moved = SocketAddr::from(([192, 0, 2, 77], 40_000));
    lose(&mut pair, CLIENT, address(CLIENT, 0));
    gain(&mut pair, CLIENT, moved);
    let any = IpAddr::from([0, 0, 0, 0]);
    let all = [AddressRequest::Add(any), AddressRequest::Delete(any), AddressRequest::SetPrimary(any)];
    pair.hosts[CLIENT].endpoint.addresses(client).set_local(pair.now, &[]).unwrap();
    request(&mut pair, CLIENT, client, &all).unwrap();
    pair.pass(Duration::from_secs(5));
    assert_eq!(outcomes(&pair, CLIENT).len(), 3);
    assert!(outcomes(&pair, CLIENT).iter().all(|(_, outcome)| *outcome == AddressOutcome::Performed));
    assert_eq!(paths(&pair, SERVER, server), [(moved, Reachability::Active)]);
    pair.send(SERVER, server, 0, b"there you are");
    pair.pass(Duration::from_secs(5));
    assert_eq!(pair.recv(CLIENT, client).unwrap().data, "there you are");
}

/// Both sides change addresses at the same time.
#[test]
fn requests_of_both_sides_cross() {
    let (mut pair, client, server) = established();
    for (host, id) in [(CLIENT, client), (SERVER, server)] {
        gain(&mut pair, host, new_address(host, 0));
        request(&mut pair, host, id, &[AddressRequest::Add(new_address(host, 0).ip())]).unwrap();
    }
    pair.pass(Duration::from_secs(2));
    for (host, id) in [(CLIENT, client), (SERVER, server)] {
        assert_eq!(outcomes(&pair, host)[0].1, AddressOutcome::Performed);
        assert_eq!(paths(&pair, host, id).len(), 2);
        request(&mut pair, host, id, &[AddressRequest::Delete(address(host, 0).ip())]).unwrap();
    }
    pair.pass(Duration::from_secs(10));
    for (host, id, to, there) in [(CLIENT, client, SERVER, server), (SERVER, server, CLIENT, client)] {
        assert_eq!(outcomes(&pair, host)[1].1, AddressOutcome::Performed, "{:?}", outcomes(&pair, host));
        lose(&mut pair, host, address(host, 0));
        pair.send(host, id, 0, b"still here");
        pair.pass(Duration::from_secs(10));
        assert_eq!(pair.recv(to, there).unwrap().data, "still here");
    }
}

/// A shutdown right after the request: it is answered or fails, and the shutdown completes.
#[test]
fn shutdown_completes_with_a_request_outstanding() {
    for drop in [false, true] {
        let (mut pair, client, server) = established();
        request(&mut pair, CLIENT, client, &[AddressRequest::Add(new_address(CLIENT, 0).ip())]).unwrap();
        let now = pair.now;
        pair.hosts[CLIENT].endpoint.shutdown(now, client).unwrap();
        pair.pass_dropping(Duration::from_secs(30), |sent| drop && has(kind::ASCONF)(sent));
        assert_eq!((pair.state(CLIENT, client), pair.state(SERVER, server)), ("CLOSED", "CLOSED"));
        assert_eq!(outcomes(&pair, CLIENT).len(), 1);
    }
}

/// The peer's SHUTDOWN arrives while the only address is being replaced: the answer waits for the ASCONF-ACK.
#[test]
fn shutdown_of_the_peer_crosses_a_replacement() {
    for lost in 0..3 {
        let (mut pair, client, server) = established();
        let (old, new) = (address(CLIENT, 0), new_address(CLIENT, 0));
        let now = pair.now;
        pair.hosts[SERVER].endpoint.shutdown(now, server).unwrap();
        pair.collect();
        gain(&mut pair, CLIENT, new);
        let replace = [AddressRequest::Add(new.ip()), AddressRequest::Delete(old.ip())];
        request(&mut pair, CLIENT, client, &replace).unwrap();
        let mut asconfs = 0;
        pair.pass_dropping(Duration::from_secs(60), |sent| {
            asconfs += u32::from(has(kind::ASCONF)(sent));
            has(kind::ASCONF)(sent) && asconfs <= lost
        });
        assert_eq!((pair.state(CLIENT, client), pair.state(SERVER, server)), ("CLOSED", "CLOSED"));
        for host in [CLIENT, SERVER] {
            assert_eq!(pair.closed(host), Some(&CloseReason::Shutdown), "{lost} lost");
        }
    }
}

/// A shutdown right after the peer's only address was replaced waits for its confirmation.
#[test]
fn shutdown_waits_for_the_confirmation() {
    let (mut pair, client, server) = established();
    let (old, new) = (address(CLIENT, 0), new_address(CLIENT, 0));
    gain(&mut pair, CLIENT, new);
    let replace = [AddressRequest::Add(new.ip()), AddressRequest::Delete(old.ip())];
    request(&mut pair, CLIENT, client, &replace).unwrap();
    pair.run_dropping(has(kind::HEARTBEAT));
    let now = pair.now;
    pair.hosts[SERVER].endpoint.shutdown(now, server).unwrap();
    pair.run_dropping(has(kind::HEARTBEAT));
    assert!(!pair.log.iter().any(has(kind::SHUTDOWN)));
    pair.pass(Duration::from_secs(60));
    assert_eq!((pair.state(CLIENT, client), pair.state(SERVER, server)), ("CLOSED", "CLOSED"));
    assert_eq!(pair.closed(SERVER), Some(&CloseReason::Shutdown));
}

/// Section 6: wildcards, which an attacker on the path could redirect, are sent only if the application asks for one.
#[test]
fn section_6_wildcards_are_sent_on_request_only() {
    let wildcards = |asked: &[AddressRequest]| {
        let mut peer = Peer::new(2);
        let sent = ask(&mut peer, asked);
        let mut addresses = Vec::new();
        for chunk in sent.iter().flat_map(chunks) {
            let Chunk::Asconf(asconf) = chunk else { continue };
            addresses.push(asconf.address);
            for raw in asconf.parameters.iter().flatten() {
                match raw.parse_asconf().unwrap().unwrap() {
                    AsconfParameter::AddIp { address, .. }
                    | AsconfParameter::DeleteIp { address, .. }
                    | AsconfParameter::SetPrimary { address, .. } => addresses.push(address),
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(addresses.len(), asked.len() + 1, "{addresses:?}");
        addresses.iter().filter(|address| address.is_unspecified()).count()
    };
    let (first, second) = (address(SERVER, 0).ip(), address(SERVER, 1).ip());
    let new = new_address(SERVER, 0).ip();
    let named = [AddressRequest::Add(new), AddressRequest::Delete(second), AddressRequest::SetPrimary(first)];
    assert_eq!(wildcards(&named), 0);
    assert_eq!(wildcards(&[AddressRequest::Add(wildcard().ip())]), 1);
}
