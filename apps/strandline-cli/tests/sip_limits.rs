//! Tests of limits that need real sockets: associations, access lists, and responses pending at the end.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use strandline::{Association, Peer, SendInfo, Stack};

use crate::sip_server::{Server, again};
use crate::udp_phone::Phone;
use crate::waiting::at_last;

const READ_TIMEOUT: Duration = Duration::from_secs(30);
const LISTEN: &str =
    "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"udp\"\naddress = \"127.0.0.1:0\"\n";

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("strandline-limits-{name}-{}.toml", std::process::id()))
}

fn configured(name: &str, text: &str) -> Server {
    let file = file(name);
    std::fs::write(&file, format!("{LISTEN}{text}")).unwrap();
    let server = Server::configured(&file);
    std::fs::remove_file(&file).unwrap();
    server
}

fn register(transport: &str, user: &str, cseq: u32) -> String {
    format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/{transport} 127.0.0.1:5060;branch=z9hG4bK{user}{cseq};rport\r\n\
         From: <sip:{user}@example.com>;tag=1\r\nTo: <sip:{user}@example.com>\r\nCall-ID: {user}\r\n\
         CSeq: {cseq} REGISTER\r\nContact: <sip:{user}@127.0.0.1:5060>\r\nContent-Length: 0\r\n\r\n"
    )
}

/// Opens an association that registers; `None` if the server ends it instead.
async fn arrive(stack: &Stack, server: &Server, user: &str) -> Option<Association> {
    let peer = Peer::new([127, 0, 0, 1], 5060).encapsulation_port(server.carrier());
    let association =
        tokio::time::timeout(READ_TIMEOUT, Association::connect(stack, &peer)).await.unwrap().ok()?;
    association.send(register("SCTP", user, 1).as_bytes(), SendInfo::default()).await.ok()?;
    let mut messages = Vec::new();
    let came = tokio::time::timeout(READ_TIMEOUT, association.recv_many(&mut messages, 1)).await.unwrap();
    match came {
        Ok(1) => {
            assert!(messages[0].data.starts_with(b"SIP/2.0 200 OK"));
            Some(association)
        }
        _ => None,
    }
}

#[tokio::test]
async fn associations_are_limited_by_number_and_access_lists() {
    for style in ["one-to-many", "one-to-one"] {
        let sctp =
            format!("[[listen]]\nprotocol = \"sctp\"\naddress = \"127.0.0.1:0\"\nstyle = \"{style}\"\n");
        let server = configured(style, &format!("{sctp}[limits]\nconnections_max = 2\n"));
        let stack = || Stack::builder().udp("127.0.0.1:0".parse().unwrap()).unwrap();
        let stacks = [stack(), stack(), stack()];
        let first = arrive(&stacks[0], &server, "a").await.expect("room for the first");
        let second = arrive(&stacks[1], &server, "b").await.expect("room for the second");
        assert!(arrive(&stacks[2], &server, "c").await.is_none(), "{style}: no room for the third");
        // When an association ends, another is accepted.
        first.shutdown().await;
        let third = async { while arrive(&stacks[2], &server, "c").await.is_none() {} };
        tokio::time::timeout(READ_TIMEOUT, third).await.expect("room again");
        // Denied peers are disconnected, and new ones are not accepted.
        let denied = format!("{LISTEN}{sctp}[access]\ndeny = [\"127.0.0.0/8\"]\n");
        std::fs::write(file(style), denied).unwrap();
        server.hang_up();
        let mut messages = Vec::new();
        let ended = tokio::time::timeout(READ_TIMEOUT, second.recv_many(&mut messages, 1)).await.unwrap();
        assert!(matches!(ended, Ok(0) | Err(_)), "{style}: let go");
        assert!(arrive(&stacks[0], &server, "d").await.is_none(), "{style}: denied");
        std::fs::remove_file(file(style)).unwrap();
    }
}

/// Many associations at once: no more of them are accepted than there may be.
#[tokio::test]
async fn a_burst_of_associations_stays_within_the_limit() {
    const BURST: usize = 64;
    for style in ["one-to-many", "one-to-one"] {
        let text = format!(
            "[[listen]]\nprotocol = \"sctp\"\naddress = \"127.0.0.1:0\"\nstyle = \"{style}\"\n\
             [limits]\nconnections_max = 2\n"
        );
        let server = configured(&format!("burst-{style}"), &text);
        let stack = Stack::builder().udp("127.0.0.1:0".parse().unwrap()).unwrap();
        let (stack, server) = (&stack, &server);
        let arrivals =
            (0..BURST).map(|number| async move { arrive(stack, server, &format!("u{number}")).await });
        let associations = futures_util::future::join_all(arrivals).await;
        let count = associations.iter().flatten().count();
        assert!((1..=2).contains(&count), "{style}: {count} of {BURST}");
    }
}

/// The oldest association over which nothing has come ends, and the phone stays.
#[tokio::test]
async fn silent_associations_make_room_for_phones() {
    for style in ["one-to-many", "one-to-one"] {
        let text = format!(
            "[[listen]]\nprotocol = \"sctp\"\naddress = \"127.0.0.1:0\"\nstyle = \"{style}\"\n\
             [limits]\nconnections_max = 3\n"
        );
        let server = configured(&format!("silent-{style}"), &text);
        let stack = || Stack::builder().udp("127.0.0.1:0".parse().unwrap()).unwrap();
        let stacks = [stack(), stack(), stack(), stack()];
        let phone = arrive(&stacks[0], &server, "a").await.expect("room for the first");
        let peer = Peer::new([127, 0, 0, 1], 5060).encapsulation_port(server.carrier());
        let oldest = Association::connect(&stacks[1], &peer).await.unwrap();
        let silent = Association::connect(&stacks[2], &peer).await.unwrap();
        // It is refused while they may still begin to speak.
        let newcomer = async {
            loop {
                if let Some(newcomer) = arrive(&stacks[3], &server, "b").await {
                    return newcomer;
                }
            }
        };
        let newcomer = tokio::time::timeout(READ_TIMEOUT, newcomer).await.expect("room for another");
        let mut messages = Vec::new();
        let ended = tokio::time::timeout(READ_TIMEOUT, oldest.recv_many(&mut messages, 1)).await.unwrap();
        assert!(matches!(ended, Ok(0) | Err(_)), "{style}: made room");
        for (association, user) in [(&phone, "a"), (&newcomer, "b"), (&silent, "c")] {
            association.send(register("SCTP", user, 2).as_bytes(), SendInfo::default()).await.unwrap();
            let answer =
                tokio::time::timeout(READ_TIMEOUT, association.recv()).await.unwrap().unwrap().unwrap();
            assert!(answer.data.starts_with(b"SIP/2.0 200 OK"), "{style}: {user}");
        }
        // All have spoken: nobody makes room.
        assert!(arrive(&stacks[1], &server, "d").await.is_none(), "{style}: no room");
    }
}

#[test]
fn denied_sources_get_no_stun_response() {
    let denied = "[metrics]\naddress = \"127.0.0.1:0\"\n[access]\ndeny = [\"127.0.0.2/32\"]\n";
    let server = configured("stun", denied);
    let request = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], b"transaction!"].concat();
    let (stranger, phone) =
        (UdpSocket::bind("127.0.0.2:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    phone.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    stranger.set_nonblocking(true).unwrap();
    stranger.send_to(&request, server.address("udp")).unwrap();
    // Datagrams are handled in order: once the other phone has received a message, this one would have, too.
    phone.send_to(&request, server.address("udp")).unwrap();
    let mut room = [0; 100];
    assert_eq!(again(|| phone.recv(&mut room)).unwrap(), 32);
    assert!(stranger.recv(&mut room).is_err(), "an answer to who may not send");
    assert!(server.metrics("/metrics").contains("dropped_total{reason=\"access\"} 1\n"));
}

/// Returns whether the server refuses new requests.
fn is_draining(phone: &mut Phone, server: SocketAddr) -> bool {
    phone.cseq += 1;
    phone.socket.send_to(register("UDP", "probe", phone.cseq).as_bytes(), server).unwrap();
    let mut room = [0; 4096];
    match phone.socket.recv(&mut room) {
        Ok(len) => room[..len].starts_with(b"SIP/2.0 503"),
        Err(_) => false,
    }
}

/// Returns a request that is handled however many wait, as everything within dialogs is. A busy host makes the server
/// refuse others.
fn bye(cseq: u32) -> String {
    register("TCP", "heidi", cseq).replace("REGISTER", "BYE")
}

#[test]
fn queued_output_arrives_at_graceful_shutdown() {
    const LAST: u32 = 1500;
    let tcp =
        "[[listen]]\nprotocol = \"tcp\"\naddress = \"127.0.0.1:0\"\n[metrics]\naddress = \"127.0.0.1:0\"\n";
    let mut server = configured("end", tcp);
    let mut stream = TcpStream::connect(server.address("tcp")).unwrap();
    stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    // The receive buffer is so small that most responses wait in the server.
    set_socket_recv_buffer_size(&stream, 4096).unwrap();
    for cseq in 1..=LAST {
        stream.write_all(bye(cseq).as_bytes()).unwrap();
    }
    let all = format!("strandline_sip_requests_total {LAST}\n");
    at_last("all are answered", || server.metrics("/metrics").contains(&all));
    let udp = server.address("udp");
    let ended = std::thread::spawn(move || server.terminate());
    let mut phone = Phone::new();
    phone.socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    at_last("it drains", || is_draining(&mut phone, udp) || ended.is_finished());
    // Only now the client reads.
    set_socket_recv_buffer_size(&stream, 4 << 20).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text.matches("\r\nCSeq: ").count() as u32, LAST);
    assert!(ended.join().unwrap().success());
}
