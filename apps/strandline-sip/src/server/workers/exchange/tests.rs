#![allow(clippy::unwrap_used, clippy::panic)]

use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;

use strandline_ipc::read_frame as read;

use super::*;
use crate::store::Damage;

/// A worker's end of a link.
struct End {
    stream: UnixStream,
}

impl End {
    fn hears(&mut self) -> ToWorker {
        loop {
            match read(&mut self.stream).unwrap() {
                (ToWorker::Alive { .. }, _) => {}
                (heard, _) => return heard,
            }
        }
    }
}

fn hello() -> Hello {
    let key = [0; 16];
    Hello {
        count: 2,
        begun_unix_secs: 1,
        tokens: key,
        nonces: key,
        hashes: key,
        alive: 0,
        relays: true,
        sctp: None,
        sockets: Vec::new(),
        reloaded: false,
        draining: false,
    }
}

fn begin(exchange: &Exchange, worker: u8) -> End {
    let (ours, stream) = UnixStream::pair().unwrap();
    let (outlet, writer) = Outlet::new(ours);
    std::thread::spawn(move || writer.run());
    exchange.begin(worker, hello(), (&[], None), outlet);
    let mut end = End { stream };
    assert!(matches!(end.hears(), ToWorker::Hello(_)));
    while end.hears() != ToWorker::Loaded {}
    exchange.serves(worker);
    end
}

fn change(name: &str) -> Vec<u8> {
    let mut journal = crate::bindings::Journal::default();
    journal.record_with(name.as_bytes(), |out| out.extend_from_slice(b"state"));
    journal.as_bytes().to_vec()
}

fn commit(worker: u8, number: u64, name: &str) -> ToStore {
    ToStore::Commit { worker, number, changes: change(name) }
}

#[test]
fn change_is_durable_once_others_know() {
    let exchange = Exchange::new(Table::new(Vec::new(), 2, Damage::default()), 2);
    let (mut first, mut second) = (begin(&exchange, 0), begin(&exchange, 1));
    super::commit(&exchange, &mut Keep::Memory, vec![commit(0, 7, "alice")]);
    assert_eq!(second.hears(), ToWorker::Changes { number: 1, worker: 0 });
    assert!(exchange.release(), "the other one doesn't know it yet");
    exchange.merged(1, 1);
    assert_eq!(first.hears(), ToWorker::Committed { number: 7, error: None });
    assert!(!exchange.release());
}

#[test]
fn nobody_waits_for_a_worker_that_is_gone() {
    let exchange = Exchange::new(Table::new(Vec::new(), 2, Damage::default()), 2);
    let (mut first, _second) = (begin(&exchange, 0), begin(&exchange, 1));
    super::commit(&exchange, &mut Keep::Memory, vec![commit(0, 1, "alice")]);
    assert!(exchange.release());
    let (sender, gone) = channel();
    let handled = Box::new(move || sender.send(()).unwrap());
    super::commit(&exchange, &mut Keep::Memory, vec![ToStore::Gone { worker: 1, handled }]);
    gone.recv().unwrap();
    assert_eq!(first.hears(), ToWorker::Committed { number: 1, error: None });
}

#[test]
fn who_comes_later_gets_all_that_there_is() {
    let exchange = Exchange::new(Table::new(Vec::new(), 2, Damage::default()), 2);
    let _first = begin(&exchange, 0);
    super::commit(&exchange, &mut Keep::Memory, vec![commit(0, 1, "alice"), commit(0, 2, "bob")]);
    let (ours, stream) = UnixStream::pair().unwrap();
    let (outlet, writer) = Outlet::new(ours);
    std::thread::spawn(move || writer.run());
    exchange.begin(1, hello(), (b"as it began", Some(b"as it is")), outlet);
    let mut end = End { stream };
    let (head, body) = read::<ToWorker>(&mut end.stream).unwrap();
    assert!(matches!(head, ToWorker::Hello(Hello { reloaded: true, .. })) && body == b"as it began");
    assert_eq!(read(&mut end.stream).unwrap(), (ToWorker::Reload { id: 0 }, b"as it is".to_vec()));
    let (head, body) = read::<ToWorker>(&mut end.stream).unwrap();
    assert_eq!(head, ToWorker::State { worker: 0 });
    let mut users: Vec<&[u8]> = crate::bindings::Journal::read(&body).map(|(aor, _)| aor).collect();
    users.sort_unstable();
    assert_eq!(users, [&b"alice"[..], b"bob"]);
    assert_eq!(end.hears(), ToWorker::Loaded);
}

#[test]
fn unresponsive_worker_is_awaited_once() {
    let exchange = Exchange::new(Table::new(Vec::new(), 2, Damage::default()), 2);
    let (mut first, _second) = (begin(&exchange, 0), begin(&exchange, 1));
    super::commit(&exchange, &mut Keep::Memory, vec![commit(0, 1, "alice")]);
    while exchange.release() {
        std::thread::yield_now();
    }
    assert_eq!(first.hears(), ToWorker::Committed { number: 1, error: None });
    super::commit(&exchange, &mut Keep::Memory, vec![commit(0, 2, "bob")]);
    assert!(!exchange.release(), "at once");
    exchange.merged(1, 1);
    super::commit(&exchange, &mut Keep::Memory, vec![commit(0, 3, "carol")]);
    assert!(!exchange.release(), "it is still behind");
    exchange.merged(1, 3);
    super::commit(&exchange, &mut Keep::Memory, vec![commit(0, 4, "dave")]);
    assert!(exchange.release(), "it has caught up");
}
