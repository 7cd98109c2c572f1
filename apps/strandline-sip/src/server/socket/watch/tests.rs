use super::*;
use crate::transaction::Protocol;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Accepts a connection, and returns the server's end and the phone's.
fn pair(connections: &Connections) -> (Rc<Connection>, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let phone = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, peer) = listener.accept().unwrap();
    let connection = connections.add(Protocol::Tcp, peer);
    connection.accepted(stream);
    (connection, phone)
}

/// Returns true if the server has closed the connection, which the phone reads as the end.
fn is_closed(phone: &mut std::net::TcpStream) -> bool {
    phone.set_nonblocking(true).unwrap();
    match std::io::Read::read(phone, &mut [0]) {
        Ok(0) => true,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_says_nothing_is_let_go() {
    let (connections, _wanted) = Connections::new(1);
    connections.let_go(secs(0), |_| None);
    let (mute, mut mute_phone) = pair(&connections);
    let (idle, mut idle_phone) = pair(&connections);
    let (bound, mut bound_phone) = pair(&connections);
    idle.life.on_message();
    bound.life.on_message();
    let limit = |id| (id == idle.id).then_some(secs(300));
    let mut ended = [None; 3];
    for now in 1..1000 {
        connections.let_go(secs(now), limit);
        // Pings don't keep a connection that has never carried a message.
        if now == 100 {
            idle.life.on_sign();
        }
        let phones = [&mut mute_phone, &mut idle_phone, &mut bound_phone];
        for (phone, ended) in phones.into_iter().zip(&mut ended) {
            if ended.is_none() && is_closed(phone) {
                *ended = Some(now);
            }
        }
    }
    let [Some(mute_ended), Some(idle_ended), None] = ended else { panic!("{ended:?}") };
    assert!((30..=90).contains(&mute_ended), "{mute_ended}");
    assert!((400..=500).contains(&idle_ended), "{idle_ended}");
    drop(mute);
}

#[test]
fn largest_buffer_goes_first_over_the_limit() {
    let (connections, _wanted) = Connections::new(1);
    connections.limits.set(ConnectionLimits { buffered_bytes_max: 1000, ..ConnectionLimits::default() });
    let (small, mut small_phone) = pair(&connections);
    let (large, mut large_phone) = pair(&connections);
    small.keeps(100);
    large.keeps(800);
    connections.keep_to_account();
    assert!(!is_closed(&mut large_phone));
    small.keeps(300);
    connections.keep_to_account();
    assert!(is_closed(&mut large_phone));
    assert!(!is_closed(&mut small_phone));
    connections.remove(&large);
    drop(large);
    assert_eq!(connections.account.bytes(), 300);
}
