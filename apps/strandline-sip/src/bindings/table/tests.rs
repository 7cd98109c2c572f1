#![allow(clippy::unwrap_used)]

use super::*;
use crate::transaction::{Flow, Protocol};

/// A binding that depends on a connection.
fn over(connection: u64) -> Binding {
    let text = |text: &[u8]| text.into();
    Binding {
        contact: text(b"sip:a@192.0.2.1"),
        params: Box::default(),
        call_id: text(b"c"),
        cseq: 1,
        expires_at: 1000,
        q: 1000,
        reg_id: 0,
        instance: Box::default(),
        path: Box::default(),
        flow: Flow { connection, ..Flow::to(Protocol::Tcp, "192.0.2.1:5060".parse().unwrap()) },
        flow_use: FlowUse::Only,
        gruu: 0,
        stamp: 0,
        origin: None,
        has_ended: false,
    }
}

fn bind(locations: &mut Locations, aor: &str, connection: u64) {
    bind_to(locations, aor, over(connection));
}

fn bind_to(locations: &mut Locations, aor: &str, binding: Binding) {
    let done = locations.change(aor.as_bytes(), 0, &mut Journal::off(), |bindings| *bindings = vec![binding]);
    assert!(done.is_some());
}

/// As behind a proxy that uses one connection for all. Searching all users for each new one would take
/// minutes.
#[test]
fn hundreds_of_thousands_may_be_behind_one_connection() {
    const USERS: usize = 300_000;
    let mut locations = Locations::new(USERS, [1; 16]);
    (0..USERS).for_each(|user| bind(&mut locations, &format!("{user}@example.com"), 7));
    assert_eq!(locations.len(), USERS);
    assert_eq!(locations.connection_closed(7, &mut Journal::off()), USERS);
    assert!(locations.is_empty());
}

#[test]
fn re_registering_users_occupy_one_slot() {
    let mut locations = Locations::new(1000, [1; 16]);
    for round in 0..200 {
        (0..100).for_each(|user| bind(&mut locations, &format!("{user}@example.com"), 7 + round % 2));
    }
    let noted: Vec<usize> = locations.by_connection.values().map(Vec::len).collect();
    assert!(noted.len() == 2 && noted.iter().all(|count| *count <= 300), "{noted:?}");
    assert_eq!(locations.connection_closed(7, &mut Journal::off()), 0);
    assert_eq!(locations.connection_closed(8, &mut Journal::off()), 100);
}

/// The number of bindings, counted one by one.
fn counted(locations: &Locations) -> usize {
    let (found, _) = locations.page(0, u32::MAX, usize::MAX, b"");
    found.iter().map(|(_, bindings)| bindings.len()).sum()
}

#[test]
fn bindings_are_counted_as_they_come_and_go() {
    let mut locations = Locations::new(100, [1; 16]);
    locations.share(Nodes::new("a", Box::new(crate::service::Tokens::new([1; 16]))));
    let node = locations.node("b");
    let mut journal = Journal::off();
    let check = |locations: &Locations, expected: usize| {
        assert_eq!((locations.bindings_len(), counted(locations)), (expected, expected));
    };
    for user in 0..10u64 {
        let two = |bindings: &mut Vec<Binding>| {
            *bindings =
                vec![over(user), Binding { contact: b"sip:b@192.0.2.2"[..].into(), ..over(user + 1) }];
        };
        assert!(locations.change(format!("{user}@x").as_bytes(), 0, &mut journal, two).is_some());
    }
    check(&locations, 20);
    // One of two is removed, and both of another user.
    assert_eq!(locations.change(b"0@x", 0, &mut journal, |bindings| bindings.truncate(1)), Some(()));
    assert_eq!(locations.change(b"1@x", 0, &mut journal, Vec::clear), Some(()));
    check(&locations, 17);
    // Closes a connection on which two users depend with one binding each.
    assert_eq!(locations.connection_closed(5, &mut journal), 2);
    check(&locations, 15);
    // The state of another node, and of a store.
    let mut state = Vec::new();
    over(7).write(&mut state);
    assert!(locations.merge(node, b"2@x", b"", &mut journal).is_some());
    assert!(locations.merge(node, b"other@x", &state, &mut journal).is_some());
    check(&locations, 16);
    locations.forget_node(node);
    check(&locations, 15);
    assert!(locations.load(b"2@x", &state).is_some());
    check(&locations, 14);
    // All bindings expire.
    locations.sweep(200, 2000, &mut journal);
    check(&locations, 0);
    assert!(locations.is_empty());
}

#[test]
fn unreadable_lines_of_a_user_are_counted() {
    let mut line = Vec::new();
    over(7).write(&mut line);
    let cut = line.get(..line.len() - 2).unwrap();
    let states: [(&[u8], usize, usize); 4] = [(&line, 0, 1), (cut, 1, 0), (b"x\n", 1, 0), (b"", 0, 0)];
    for (more, unreadable, bindings) in states {
        let mut locations = Locations::new(10, [1; 16]);
        let state = [&line, more].concat();
        assert_eq!(locations.load(b"a", &state), Some(unreadable));
        assert_eq!(locations.bindings(b"a").len(), 1 + bindings);
    }
}

/// A binding that lives by a source of datagrams.
fn from(port: u16) -> Binding {
    Binding { flow: Flow::to(Protocol::Udp, ([192, 0, 2, 1], port).into()), ..over(0) }
}

#[test]
fn users_at_a_source_are_known() {
    let mut locations = Locations::new(100, [1; 16]);
    let source = |port: u16| ([192, 0, 2, 1], port).into();
    bind_to(&mut locations, "a", from(1));
    bind_to(&mut locations, "b", from(1));
    bind_to(&mut locations, "c", Binding { flow_use: FlowUse::None, ..from(2) });
    assert!(locations.reaches_at(source(1)) && !locations.reaches_at(source(2)));
    bind_to(&mut locations, "a", from(3));
    assert!(locations.reaches_at(source(1)) && locations.reaches_at(source(3)));
    bind_to(&mut locations, "b", from(3));
    assert!(!locations.reaches_at(source(1)));
    // The one who has left comes back.
    bind_to(&mut locations, "b", from(1));
    assert!(locations.reaches_at(source(1)));
}

#[test]
fn sources_that_were_left_are_forgotten() {
    let mut locations = Locations::new(100, [1; 16]);
    for port in 0..20_000 {
        bind_to(&mut locations, &format!("{}", port % 10), from(port));
    }
    assert!(locations.by_source.len() < 100, "{}", locations.by_source.len());
    assert!(!locations.reaches_at(([192, 0, 2, 1], 0).into()));
    assert!(locations.reaches_at(([192, 0, 2, 1], 19_999).into()));
}

/// As behind a proxy that sends all from one port. To look through all users for each one that comes would
/// take minutes.
#[test]
fn hundreds_of_thousands_may_be_at_one_source() {
    let mut locations = Locations::new(300_000, [1; 16]);
    (0..300_000).for_each(|user| bind_to(&mut locations, &format!("{user}"), from(1)));
    assert_eq!((locations.len(), locations.by_source.len()), (300_000, 32));
    assert!(locations.reaches_at(([192, 0, 2, 1], 1).into()));
}
