//! Tests of newly accepted TCP connections: data sent at once, later or in pieces, and connections closed at
//! once.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

use crate::sip_server::{Server, again};
use crate::waiting::at_last;

const READ_TIMEOUT: Duration = Duration::from_secs(20);

fn register(user: &str, cseq: u32) -> String {
    format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.1:5060;branch=z9hG4bK{user}{cseq};rport\r\n\
         From: <sip:{user}@example.com>;tag=1\r\nTo: <sip:{user}@example.com>\r\nCall-ID: {user}\r\n\
         CSeq: {cseq} REGISTER\r\nContact: <sip:{user}@127.0.0.1:5060>\r\nContent-Length: 0\r\n\r\n"
    )
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address("tcp")).unwrap();
    stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Reads one message without a body.
fn answer(stream: &mut TcpStream) -> String {
    let (mut text, mut room) = (String::new(), [0; 4096]);
    while !text.contains("\r\n\r\n") {
        let len = again(|| stream.read(&mut room)).unwrap();
        assert!(len > 0, "closed after {text:?}");
        text.push_str(std::str::from_utf8(&room[..len]).unwrap());
    }
    text
}

fn is_ok(text: &str, cseq: u32) -> bool {
    text.starts_with("SIP/2.0 200 OK\r\n") && text.contains(&format!("\r\nCSeq: {cseq} REGISTER\r\n"))
}

#[test]
fn sequential_requests_are_answered_from_the_first_moment() {
    let server = Server::start(&[]);
    let mut stream = connect(&server);
    for cseq in 1..200 {
        stream.write_all(register("alice", cseq).as_bytes()).unwrap();
        let text = answer(&mut stream);
        assert!(is_ok(&text, cseq), "{cseq}: {text}");
    }
}

#[test]
fn request_may_come_late_and_in_pieces() {
    let server = Server::start(&[]);
    // Three cases: nothing, a whole message, or the beginning of one; the rest follows, in connections that
    // were accepted before others.
    let (first, second) = (register("bob", 1), register("bob", 2));
    let mut streams: Vec<TcpStream> = (0..3).map(|_| connect(&server)).collect();
    streams[1].write_all(first.as_bytes()).unwrap();
    streams[2].write_all(&first.as_bytes()[..40]).unwrap();
    assert!(is_ok(&answer(&mut streams[1]), 1));
    let mut other = connect(&server);
    other.write_all(register("carol", 1).as_bytes()).unwrap();
    assert!(is_ok(&answer(&mut other), 1));
    streams[0].write_all(register("dave", 1).as_bytes()).unwrap();
    streams[1].write_all(second.as_bytes()).unwrap();
    streams[2].write_all(&register("bob", 1).as_bytes()[40..]).unwrap();
    assert!(is_ok(&answer(&mut streams[0]), 1));
    assert!(is_ok(&answer(&mut streams[1]), 2));
    // It is older than the request that created the binding.
    assert!(answer(&mut streams[2]).contains("CSeq: 1 REGISTER"));
}

#[test]
fn half_closed_client_is_answered_and_closed() {
    let server = Server::start(&["--metrics", "127.0.0.1:0"]);
    for user in ["erin", "frank"] {
        let mut stream = connect(&server);
        stream.write_all(register(user, 1).as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(is_ok(&text, 1), "{text}");
    }
    // Connections closed at once leave nothing behind, and invalid messages are answered before the connection
    // is closed.
    for number in 0..50 {
        let mut stream = connect(&server);
        stream.write_all(register(&format!("u{number}"), 1).as_bytes()).unwrap();
    }
    let mut stream = connect(&server);
    let broken = register("grace", 1).replace("Content-Length: 0\r\n", "");
    stream.write_all(broken.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("SIP/2.0 400 "), "{text}");
    drop(stream);
    at_last("no connection is left", || metric(&server, "connections") == "0");
    assert_eq!(metric(&server, "registered_total"), "52");
}

/// RFC 5626 section 6: an instance that registers with the same reg-id over another connection has left the old one,
/// which is closed.
#[test]
fn replaced_connection_is_closed() {
    let server = Server::start(&["--metrics", "127.0.0.1:0"]);
    let outbound = |cseq: u32, reg_id: u32| {
        let flow =
            format!(";reg-id={reg_id};+sip.instance=\"<urn:uuid:7c1f>\"\r\nSupported: path, outbound\r\n");
        register("alice", cseq)
            .replace("Content-Length", &format!("{flow}Content-Length"))
            .replace(">\r\n;", ">;")
    };
    let (mut old, mut other, mut new) = (connect(&server), connect(&server), connect(&server));
    for (stream, cseq, reg_id) in [(&mut old, 1, 1), (&mut other, 2, 2), (&mut new, 3, 1)] {
        stream.write_all(outbound(cseq, reg_id).as_bytes()).unwrap();
        let text = answer(stream);
        assert!(is_ok(&text, cseq) && text.contains("\r\nRequire: outbound\r\n"), "{text}");
    }
    assert_eq!(again(|| old.read(&mut [0; 16])).unwrap(), 0, "end of file");
    at_last("the others are open", || metric(&server, "connections") == "2");
    for (stream, cseq, reg_id) in [(&mut other, 4, 2), (&mut new, 5, 1)] {
        stream.write_all(outbound(cseq, reg_id).as_bytes()).unwrap();
        assert!(is_ok(&answer(stream), cseq));
    }
}

#[test]
fn slow_reader_gets_all_responses_in_order() {
    const LAST: u32 = 1200;
    let server = Server::start(&[]);
    let mut stream = connect(&server);
    // The receive buffer is so small that most responses wait in the server.
    set_socket_recv_buffer_size(&stream, 4096).unwrap();
    for cseq in 1..=2 {
        stream.write_all(register("heidi", cseq).as_bytes()).unwrap();
        let text = answer(&mut stream);
        assert!(is_ok(&text, cseq), "{text}");
    }
    // Requests that are handled however many wait. A busy host makes the server refuse others.
    for cseq in 3..=LAST {
        stream.write_all(register("heidi", cseq).replace("REGISTER", "BYE").as_bytes()).unwrap();
    }
    let mut text = String::new();
    while !text.contains(&format!("\r\nCSeq: {LAST} BYE\r\n")) {
        text.push_str(&answer(&mut stream));
    }
    let numbers = text.lines().filter_map(|line| line.strip_prefix("CSeq: ")?.strip_suffix(" BYE"));
    assert!(numbers.map(|number| number.parse::<u32>().unwrap()).eq(3..=LAST));
    assert_eq!(text.matches("SIP/2.0 404 ").count() as u32, LAST - 2);
}

/// Limits the files that the server can open to this many more.
fn leave_descriptors(server: &Server, more: u64) {
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid().as_raw_nonzero())).unwrap().count();
    let limit = Rlimit { current: Some(open as u64 + more), ..getrlimit(Resource::Nofile) };
    prlimit(Some(server.pid()), Resource::Nofile, limit).unwrap();
}

#[test]
fn silent_connections_that_used_up_descriptors_make_way() {
    let server = Server::start(&["--metrics", "127.0.0.1:0"]);
    let mut phone = connect(&server);
    phone.write_all(register("alice", 1).as_bytes()).unwrap();
    assert!(is_ok(&answer(&mut phone), 1));
    // Of 600, most wait to be accepted for longer than the first ones are kept.
    for (user, count, close_again) in [("bob", 40, true), ("carol", 40, false), ("dave", 600, false)] {
        leave_descriptors(&server, 8);
        let mut silent: Vec<TcpStream> = (0..count).map(|_| connect(&server)).collect();
        if close_again {
            silent.clear();
        }
        let mut newcomer = connect(&server);
        newcomer.write_all(register(user, 1).as_bytes()).unwrap();
        assert!(is_ok(&answer(&mut newcomer), 1), "{user}");
    }
    phone.write_all(register("alice", 2).as_bytes()).unwrap();
    assert!(is_ok(&answer(&mut phone), 2), "the phone stays");
}

fn metric(server: &Server, name: &str) -> String {
    let page = server.metrics("/metrics");
    let name = format!("strandline_sip_{name} ");
    page.lines().find_map(|line| line.strip_prefix(&name)).unwrap().to_owned()
}
