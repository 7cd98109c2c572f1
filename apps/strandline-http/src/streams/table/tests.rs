use super::*;

const WINDOW: u64 = 4096;
const NOW: Duration = Duration::ZERO;

fn settings() -> Settings {
    Settings::default().stream_window(WINDOW as u32).buffer_max(64 << 10).connections_max(8)
}

/// A client and a server whose messages are passed by hand.
struct Pair {
    client: Table,
    server: Table,
}

impl Pair {
    fn new() -> Self {
        let mut client = Table::new(Role::Client, settings());
        client.set_streams(4);
        Self { client, server: Table::new(Role::Server, settings()) }
    }

    /// A pair in which the client knows that the server understands control messages, with one connection.
    fn connected() -> (Self, ConnectionId, ConnectionId) {
        let mut pair = Self::new();
        let (id, stream) = pair.client.open().unwrap();
        pair.server_receives(id, stream, b"request");
        let (accepted, _) = pair.server.accept().unwrap();
        assert_eq!(read(&mut pair.server, accepted), Reading::Data(Bytes::from_static(b"request")));
        pair.exchange_controls();
        (pair, id, accepted)
    }

    fn server_receives(&mut self, id: ConnectionId, stream: u16, data: &[u8]) {
        assert!(matches!(room(&mut self.client, id), Writing::Room(room) if room >= data.len() as u64));
        self.client.on_sent(id, data.len());
        self.server.on_message(labelled(stream, data), NOW).unwrap();
    }

    fn client_receives(&mut self, id: ConnectionId, stream: u16, data: &[u8]) {
        assert!(matches!(room(&mut self.server, id), Writing::Room(room) if room >= data.len() as u64));
        self.server.on_sent(id, data.len());
        self.client.on_message(labelled(stream, data), NOW).unwrap();
    }

    /// Passes control messages until there are no more.
    fn exchange_controls(&mut self) {
        while pass(&mut self.client, &mut self.server) + pass(&mut self.server, &mut self.client) > 0 {}
    }
}

/// Passes the control messages of one side to the other, and returns how many there were.
fn pass(from: &mut Table, to: &mut Table) -> usize {
    let mut count = 0;
    while let Some((stream, control)) = from.pop_control() {
        from.on_control_sent(stream, control);
        let label = settings().label(true);
        to.on_message(message(stream, label.ppid(), &control.to_bytes()), NOW).unwrap();
        count += 1;
    }
    count
}

fn message(stream: u16, ppid: u32, data: &[u8]) -> Arrived {
    Arrived { stream, ppid, is_unordered: false, is_whole: true, data: Bytes::copy_from_slice(data) }
}

fn labelled(stream: u16, data: &[u8]) -> Arrived {
    message(stream, settings().label(false).ppid(), data)
}

fn plain(stream: u16, data: &[u8]) -> Arrived {
    message(stream, 0, data)
}

fn read(table: &mut Table, id: ConnectionId) -> Reading {
    table.read(id, usize::MAX, &mut Context::from_waker(Waker::noop()))
}

fn room(table: &mut Table, id: ConnectionId) -> Writing {
    table.room(id, &mut Context::from_waker(Waker::noop()))
}

#[test]
fn closed_connections_free_their_stream() {
    let (mut pair, client, server) = Pair::connected();
    pair.client_receives(server, 0, b"response");
    pair.server.end(server);
    pair.exchange_controls();
    assert_eq!(read(&mut pair.client, client), Reading::Data(Bytes::from_static(b"response")));
    assert_eq!(read(&mut pair.client, client), Reading::End);
    assert_eq!(pair.client.open().unwrap().1, 1, "stream 0 isn't free before the client has sent END");
    pair.client.end(client);
    pair.exchange_controls();
    let (again, stream) = pair.client.open().unwrap();
    assert_eq!(stream, 0);
    pair.server_receives(again, 0, b"next");
    let (accepted, _) = pair.server.accept().unwrap();
    assert_eq!(read(&mut pair.server, accepted), Reading::Data(Bytes::from_static(b"next")));
    assert_eq!(read(&mut pair.server, server), Reading::End, "the old handle sees its own connection");
}

#[test]
fn resets_read_as_errors_after_the_data() {
    let (mut pair, client, server) = Pair::connected();
    pair.client_receives(server, 0, b"half of a resp");
    pair.server.drop_handle(server);
    pair.exchange_controls();
    assert_eq!(read(&mut pair.client, client), Reading::Data(Bytes::from_static(b"half of a resp")));
    assert_eq!(read(&mut pair.client, client), Reading::Reset);
    assert_eq!(room(&mut pair.client, client), Writing::Closed);
    pair.client.drop_handle(client);
    pair.exchange_controls();
    assert_eq!(pair.client.open().unwrap().1, 0, "both sides have confirmed: the stream is used again");
}

#[test]
fn reset_after_end_leaves_the_response_readable() {
    let (mut pair, client, server) = Pair::connected();
    pair.client_receives(server, 0, b"413");
    pair.server.end(server);
    // The server doesn't read the rest of the request.
    pair.server.drop_handle(server);
    pair.exchange_controls();
    assert_eq!(read(&mut pair.client, client), Reading::Data(Bytes::from_static(b"413")));
    assert_eq!(read(&mut pair.client, client), Reading::End);
    assert_eq!(room(&mut pair.client, client), Writing::Closed);
}

/// A client that has sent everything may still want the response, unless it resets the connection, too.
#[test]
fn resets_after_ends_of_requests_are_seen() {
    let (mut pair, client, server) = Pair::connected();
    pair.client.end(client);
    pair.exchange_controls();
    assert_eq!(read(&mut pair.server, server), Reading::End);
    assert!(matches!(room(&mut pair.server, server), Writing::Room(_)));
    pair.client.drop_handle(client);
    pair.exchange_controls();
    assert_eq!(read(&mut pair.server, server), Reading::Reset);
    assert_eq!(room(&mut pair.server, server), Writing::Closed);
}

#[test]
fn late_resets_miss_the_next_connection() {
    let (mut pair, client, server) = Pair::connected();
    pair.server.end(server);
    pair.server.drop_handle(server);
    // END arrives and the client closes, before the RESET that followed arrives.
    let (stream, end) = pair.server.pop_control().unwrap();
    pair.server.on_control_sent(stream, end);
    let label = settings().label(true).ppid();
    pair.client.on_message(message(stream, label, &end.to_bytes()), NOW).unwrap();
    pair.client.end(client);
    pass(&mut pair.client, &mut pair.server);
    let (again, stream) = pair.client.open().unwrap();
    assert_eq!(stream, 0);
    pass(&mut pair.server, &mut pair.client);
    assert_eq!(read(&mut pair.client, again), Reading::Pending);
    assert!(matches!(room(&mut pair.client, again), Writing::Room(_)));
}

#[test]
fn writers_wait_for_credit() {
    let (mut pair, client, server) = Pair::connected();
    let sent = b"request".len() as u64;
    pair.server_receives(client, 0, &vec![1; (WINDOW - sent) as usize]);
    assert_eq!(room(&mut pair.client, client), Writing::Pending);
    assert!(matches!(read(&mut pair.server, server), Reading::Data(_)));
    pair.exchange_controls();
    assert_eq!(room(&mut pair.client, client), Writing::Room(WINDOW));
}

#[test]
fn only_one_credit_waits_on_a_stream() {
    let (mut pair, client, server) = Pair::connected();
    for _ in 0..100 {
        pair.server.on_message(labelled(0, &[0; WINDOW as usize]), NOW).unwrap();
        read(&mut pair.server, server);
    }
    let (_, control) = pair.server.pop_control().unwrap();
    let read_by_now = 7 + 100 * WINDOW;
    assert_eq!(control.kind, Kind::Credit(read_by_now + WINDOW), "it has the latest limit");
    assert_eq!(pair.server.pop_control(), None);
    let _ = client;
}

#[test]
fn unknown_peers_get_no_control_messages() {
    let mut client = Table::new(Role::Client, settings());
    client.set_streams(2);
    let (id, _) = client.open().unwrap();
    client.on_sent(id, 9);
    client.drop_handle(id);
    assert_eq!(client.pop_control(), None);
    assert_eq!(client.open().unwrap().1, 1);
    // The answer on another stream shows that the peer knows them.
    client.on_message(labelled(1, b"response"), NOW).unwrap();
    let reset = Control { kind: Kind::Reset, number: 0 };
    assert_eq!(client.pop_control(), Some((0, reset)));
}

#[test]
fn unused_connections_leave_no_trace() {
    let mut client = Table::new(Role::Client, settings());
    client.set_streams(1);
    let (id, _) = client.open().unwrap();
    client.drop_handle(id);
    assert_eq!(client.open().unwrap().1, 0);
    assert_eq!(client.pop_control(), None);
}

#[test]
fn plain_peers_use_a_closed_stream_no_more() {
    let mut server = Table::new(Role::Server, settings());
    server.on_message(plain(3, b"request"), NOW).unwrap();
    let (id, _) = server.accept().unwrap();
    server.end(id);
    server.drop_handle(id);
    server.on_message(plain(3, b"rest of the body"), NOW).unwrap();
    assert_eq!(server.accept(), None);
    assert_eq!(server.pop_control(), None);
    assert!(!server.wants_abort(), "the response was complete");
}

#[test]
fn failures_abort_associations_of_plain_peers() {
    let mut server = Table::new(Role::Server, settings());
    server.on_message(plain(0, b"request"), NOW).unwrap();
    server.on_message(plain(1, b"request"), NOW).unwrap();
    let (failed, _) = server.accept().unwrap();
    let (other, _) = server.accept().unwrap();
    server.drop_handle(failed);
    assert!(!server.wants_abort(), "the other stream isn't touched");
    server.end(other);
    server.drop_handle(other);
    assert!(server.wants_abort());
}

#[test]
fn association_ends_are_clean_for_plain_peers_only() {
    let mut client = Table::new(Role::Client, settings());
    client.set_streams(1);
    let (id, _) = client.open().unwrap();
    client.on_message(plain(0, b"response up to the end"), NOW).unwrap();
    client.on_ended(Ended::ShutDown);
    assert!(matches!(read(&mut client, id), Reading::Data(_)));
    assert_eq!(read(&mut client, id), Reading::End);

    let (mut pair, client, server) = Pair::connected();
    pair.client_receives(server, 0, b"response up to the end");
    pair.client.on_ended(Ended::ShutDown);
    assert!(matches!(read(&mut pair.client, client), Reading::Data(_)));
    assert_eq!(read(&mut pair.client, client), Reading::Lost(Ended::ShutDown));
}

#[test]
fn excess_connections_are_reset() {
    let mut server = Table::new(Role::Server, settings());
    for stream in 0..1000 {
        server.on_message(labelled(stream, b"GET / HTTP/1.1\r\n"), NOW).unwrap();
    }
    assert_eq!(std::iter::from_fn(|| server.accept()).count(), 8);
    let resets = std::iter::from_fn(|| server.pop_control());
    assert_eq!(resets.filter(|(_, control)| control.kind == Kind::Reset).count(), 992);
}

#[test]
fn the_table_is_full_until_it_is_read() {
    let (mut pair, _, server) = Pair::connected();
    while !pair.server.is_full() {
        pair.server.on_message(labelled(0, &[0; 1000]), NOW).unwrap();
    }
    while let Reading::Data(_) = read(&mut pair.server, server) {}
    assert_eq!(pair.server.held.bytes, 0);
    pair.server.on_message(labelled(0, &[0; 1000]), NOW).unwrap();
    pair.server.drop_handle(server);
    assert_eq!(pair.server.held.bytes, 0, "a dropped connection holds nothing");
}

#[test]
fn violations_are_detected() {
    let violation = |messages: Vec<Arrived>| {
        let mut server = Table::new(Role::Server, settings());
        messages.into_iter().try_for_each(|message| server.on_message(message, NOW)).is_err()
    };
    let control = settings().label(true).ppid();
    let end = Control { kind: Kind::End, number: 0 }.to_bytes();
    assert!(violation(vec![Arrived { is_unordered: true, ..plain(0, b"GET") }]));
    assert!(violation(vec![labelled(0, b"GET"), plain(1, b"GET")]));
    assert!(violation(vec![plain(0, b"GET"), labelled(1, b"GET")]));
    assert!(violation(vec![labelled(0, b"GET"), message(0, control, b"short")]));
    assert!(violation(vec![labelled(0, b"GET"), message(0, control, &end), labelled(0, b"more")]));
    assert!(violation(vec![labelled(0, b"GET"), message(0, control, &end), message(0, control, &end)]));
    assert!(!violation(vec![labelled(0, b"GET"), message(0, control, &end), labelled(1, b"GET")]));
    let mut client = Table::new(Role::Client, settings());
    assert!(client.on_message(plain(0, b"HTTP/1.1 200 OK\r\n"), NOW).is_err());
}

#[test]
fn closing_resets_connections_not_accepted_yet() {
    let mut server = Table::new(Role::Server, settings());
    server.on_message(labelled(0, b"GET / HTTP/1.1\r\n"), NOW).unwrap();
    server.on_message(labelled(1, b"GET / HTTP/1.1\r\n"), NOW).unwrap();
    let (accepted, _) = server.accept().unwrap();
    server.close();
    assert_eq!(server.accept(), None);
    let reset = Control { kind: Kind::Reset, number: 0 };
    assert!(std::iter::from_fn(|| server.pop_control()).any(|control| control == (1, reset)));
    assert!(server.is_busy(), "the accepted one goes on");
    server.end(accepted);
    server.drop_handle(accepted);
    assert!(!server.is_busy());
}
