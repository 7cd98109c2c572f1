//! Shared keys: section 6.1, and RFC 6458 sections 6.1.8 and 8.3.3 to 8.3.5.

use super::*;

fn keyed(client: &[u8], server: &[u8]) -> (Pair, AssociationId, AssociationId) {
    let mut pair = pair(&[kind::DATA], &[kind::DATA]);
    set_only_key(&mut pair, CLIENT, 5, client);
    set_only_key(&mut pair, SERVER, 5, server);
    pair.establish()
}

#[test]
fn section_6_1_both_need_the_same_shared_key() {
    let (mut pair, client, server) = keyed(SECRET, SECRET);
    assert!(exchange(&mut pair, client, server));
    let (mut pair, client, server) = keyed(SECRET, b"another");
    pair.send(CLIENT, client, 0, b"x");
    pair.pass(Duration::from_secs(1));
    assert_eq!(pair.recv(SERVER, server), None);
}

/// Without the null key, an attacker who saw the set-up can't authenticate anything (section 9).
#[test]
fn section_9_deleted_null_key_is_not_accepted() {
    let mut pair = pair(&[], &[kind::DATA]);
    set_only_key(&mut pair, SERVER, 5, SECRET);
    let mut peer = Peer::open(pair, &[], HmacIdentifiers::SHA1);
    let bytes = peer.behind_auth(&[&whole(Tsn(1000), 0, b"x")]);
    peer.ignores(&bytes);
    (peer.key, peer.secret) = (5, SECRET.to_vec());
    assert!(peer.say_behind_auth(&[&whole(Tsn(1000), 0, b"x")]).iter().any(has(kind::SACK)));
}

/// Keys with different identifiers do not stand for each other.
#[test]
fn section_6_3_the_identifier_selects_the_key() {
    let mut peer = Peer::new(&[kind::DATA]);
    let (now, id) = (peer.raw.pair.now, peer.raw.server);
    let server = &mut peer.raw.pair.hosts[SERVER].endpoint;
    for (key, secret) in [(1, b"one"), (2, b"two")] {
        KeyChange::Set(KeyId(key), SharedKey::new(secret)).apply(server, id).unwrap();
    }
    assert_eq!(peer.raw.pair.now, now);
    (peer.key, peer.secret) = (1, b"two".to_vec());
    let bytes = peer.behind_auth(&[&whole(Tsn(1000), 0, b"x")]);
    peer.ignores(&bytes);
    peer.key = 2;
    assert!(peer.say_behind_auth(&[&whole(Tsn(1000), 0, b"x")]).iter().any(has(kind::SACK)));
    assert_eq!(peer.events(), [AuthenticationEvent::NewKey(KeyId(2))]);
}

#[test]
fn keys_change_while_data_flows() {
    let (mut pair, client, server) = pair(&[kind::DATA], &[kind::DATA]).establish();
    for (round, id) in [1, 2, 3].map(KeyId).into_iter().enumerate() {
        let secret = SharedKey::new(&[round as u8; 16]);
        for (host, association) in [(SERVER, server), (CLIENT, client)] {
            let endpoint = &mut pair.hosts[host].endpoint;
            KeyChange::Set(id, secret.clone()).apply(endpoint, association).unwrap();
        }
        pair.send(CLIENT, client, 0, &[1; 30_000]);
        pair.collect();
        for (host, association) in [(SERVER, server), (CLIENT, client)] {
            KeyChange::Activate(id).apply(&mut pair.hosts[host].endpoint, association).unwrap();
        }
        pair.pass(Duration::from_secs(1));
        for (host, association) in [(SERVER, server), (CLIENT, client)] {
            let endpoint = &mut pair.hosts[host].endpoint;
            KeyChange::Deactivate(KeyId(id.0 - 1)).apply(endpoint, association).unwrap();
            KeyChange::Delete(KeyId(id.0 - 1)).apply(endpoint, association).unwrap();
        }
        assert_eq!(pair.recv(SERVER, server).map(|message| message.data.len()), Some(30_000));
        assert!(exchange(&mut pair, client, server));
    }
    let wanted: Vec<_> = [1, 2, 3]
        .into_iter()
        .flat_map(|id| [AuthenticationEvent::NewKey(KeyId(id)), AuthenticationEvent::FreeKey(KeyId(id - 1))])
        .collect();
    assert_eq!(events(&pair, SERVER), wanted);
}

/// What is retransmitted after a change has the key that is active then.
#[test]
fn retransmissions_have_the_active_key() {
    let (mut pair, client, server) = pair(&[kind::DATA], &[kind::DATA]).establish();
    for (host, association) in [(SERVER, server), (CLIENT, client)] {
        let endpoint = &mut pair.hosts[host].endpoint;
        KeyChange::Set(KeyId(1), SharedKey::new(SECRET)).apply(endpoint, association).unwrap();
    }
    pair.send(CLIENT, client, 0, b"x");
    pair.run_dropping(has(kind::DATA));
    KeyChange::Activate(KeyId(1)).apply(&mut pair.hosts[CLIENT].endpoint, client).unwrap();
    pair.log.clear();
    pair.pass(Duration::from_secs(3));
    let again = pair.log.iter().find(|sent| has(kind::DATA)(sent)).expect("a retransmission");
    assert!(matches!(chunks_of(again)[0], Chunk::Auth(Auth { key: 1, .. })));
    assert!(pair.recv(SERVER, server).is_some());
}

#[test]
fn keys_of_others_are_refused() {
    let (mut pair, client, _) = Pair::established();
    let endpoint = &mut pair.hosts[CLIENT].endpoint;
    let set = KeyChange::Set(KeyId(1), SharedKey::new(SECRET));
    assert_eq!(set.clone().apply(endpoint, client), Err(crate::error::KeyError::NotSupported));
    let nobody = AssociationId { slot: 99, generation: 0 };
    assert!(set.apply(endpoint, nobody).is_err());
}
