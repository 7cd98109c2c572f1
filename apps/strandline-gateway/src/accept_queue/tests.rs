use std::cell::RefCell;
use std::net::TcpStream as Client;

use super::*;

/// Connections that wait when a socket ends are accepted, although the runtime has not heard of them.
#[tokio::test]
async fn waiting_connections_are_accepted_at_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let clients: Vec<_> = (0..8).map(|_| Client::connect(at).unwrap()).collect();
    let (accepted, has_failed) = (RefCell::new(Vec::new()), watch::Sender::new(false));
    let begin = |tcp, client| accepted.borrow_mut().push((tcp, client));
    let queue = AcceptQueue::new(listener).unwrap();
    let value = queue.accept_until(std::future::ready("ended"), &has_failed, begin).await;
    let mut expected: Vec<_> = clients.iter().map(|client| client.local_addr().unwrap()).collect();
    let mut found: Vec<_> = accepted.borrow().iter().map(|(_, client)| *client).collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!((value, found), ("ended", expected));
    assert!(!*has_failed.borrow());
}

/// A client that has reset its connection while it waited does not keep those behind it from being accepted.
#[tokio::test]
async fn clients_that_have_gone_end_no_queue() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let mut clients: Vec<_> = (0..8).map(|_| Client::connect(at).unwrap()).collect();
    for at in [5, 3, 0] {
        let gone = clients.remove(at);
        socket2::SockRef::from(&gone).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    }
    let (accepted, has_failed) = (RefCell::new(Vec::new()), watch::Sender::new(false));
    let begin = |tcp, client| accepted.borrow_mut().push((tcp, client));
    let queue = AcceptQueue::new(listener).unwrap();
    queue.accept_until(std::future::ready(()), &has_failed, begin).await;
    let found: Vec<_> = accepted.borrow().iter().map(|(_, client)| *client).collect();
    for client in &clients {
        assert!(found.contains(&client.local_addr().unwrap()), "{client:?} is not in {found:?}");
    }
}
