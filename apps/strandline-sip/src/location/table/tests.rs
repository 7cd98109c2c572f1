#![allow(clippy::unwrap_used)]

use super::*;
use crate::transaction::{Flow, Protocol};

/// A binding that goes with its connection.
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
    }
}

fn bind(locations: &mut Locations, aor: &str, connection: u64) {
    let binding = over(connection);
    let done = locations.change(aor.as_bytes(), &mut Journal::off(), |bindings| *bindings = vec![binding]);
    assert!(done.is_some());
}

/// As behind a proxy that has one connection for all. To look through all users for each one that comes would take minutes.
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
fn who_comes_and_goes_stands_there_no_more_often_than_others() {
    let mut locations = Locations::new(1000, [1; 16]);
    for round in 0..200 {
        (0..100).for_each(|user| bind(&mut locations, &format!("{user}@example.com"), 7 + round % 2));
    }
    let noted: Vec<usize> = locations.by_connection.values().map(Vec::len).collect();
    assert!(noted.len() == 2 && noted.iter().all(|count| *count <= 300), "{noted:?}");
    assert_eq!(locations.connection_closed(7, &mut Journal::off()), 0);
    assert_eq!(locations.connection_closed(8, &mut Journal::off()), 100);
}
