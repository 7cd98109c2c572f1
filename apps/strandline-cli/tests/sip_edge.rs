//! Tests of `strandline sip` with real sockets, as an edge proxy of another registrar (RFC 5626), and with
//! requests too large for a datagram (RFC 3261 section 18.1.1).

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::sip_server::{Server, again};
use crate::udp_phone::Phone;

const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads one message.
fn read(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    let (mut text, mut byte) = (String::new(), [0; 1]);
    loop {
        assert_eq!(again(|| stream.read(&mut byte)).unwrap(), 1, "closed after {text}");
        text.push(char::from(byte[0]));
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        if body.len() == length.parse::<usize>().unwrap() {
            return text;
        }
    }
}

/// Returns the response of a phone.
fn ok(request: &str) -> String {
    let kept = ["Via: ", "From: ", "To: ", "Call-ID: ", "CSeq: "];
    let lines: Vec<&str> =
        request.lines().filter(|line| kept.iter().any(|name| line.starts_with(name))).collect();
    format!("SIP/2.0 200 OK\r\n{}\r\nContent-Length: 0\r\n\r\n", lines.join("\r\n"))
}

fn message(phone: &Phone, to: &str, number: u32, body: usize) -> String {
    let at = phone.socket.local_addr().unwrap();
    let text = "x".repeat(body);
    format!(
        "MESSAGE sip:{to} SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bKm{number};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:a@elsewhere.example>;tag=1\r\nTo: <sip:{to}>\r\nCall-ID: m{number}\r\nCSeq: 1 MESSAGE\r\n\
         Content-Length: {body}\r\n\r\n{text}"
    )
}

#[test]
fn phone_behind_an_edge_is_reached() {
    let home = |arguments: &[&str]| {
        let common = ["--domain", "partner.example"];
        Server::start(&[&common[..], arguments].concat())
    };
    let registrar = home(&[]);
    let config = format!(
        "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"udp\"\naddress = \"127.0.0.1:0\"\n[[listen]]\n\
         protocol = \"tcp\"\naddress = \"127.0.0.1:0\"\n[[route]]\ndomain = \"partner.example\"\n\
         to = [\"sip:{};transport=tcp\"]\nregistrar = true\n",
        registrar.address("tcp")
    );
    let file = std::env::temp_dir().join(format!("strandline-edge-{}.toml", std::process::id()));
    std::fs::write(&file, config).unwrap();
    let edge = Server::configured(&file);
    std::fs::remove_file(&file).unwrap();

    let mut phone = TcpStream::connect(edge.address("tcp")).unwrap();
    let at = phone.local_addr().unwrap();
    let register = |cseq: u32, supported: &str| {
        format!(
            "REGISTER sip:partner.example SIP/2.0\r\nVia: SIP/2.0/TCP {at};branch=z9hG4bKr{cseq};rport\r\nMax-Forwards: 70\r\n\
             From: <sip:bob@partner.example>;tag=1\r\nTo: <sip:bob@partner.example>\r\nCall-ID: r\r\n\
             CSeq: {cseq} REGISTER\r\n{supported}Contact: <sip:bob@{at};transport=tcp;ob>;reg-id=1;\
             +sip.instance=\"<urn:uuid:1>\"\r\nContent-Length: 0\r\n\r\n"
        )
    };
    phone.write_all(register(1, "").as_bytes()).unwrap();
    let refused = read(&mut phone);
    assert!(refused.starts_with("SIP/2.0 421 ") && refused.contains("\r\nRequire: path\r\n"), "{refused}");
    phone.write_all(register(2, "Supported: path, outbound\r\n").as_bytes()).unwrap();
    let bound = read(&mut phone);
    assert!(bound.starts_with("SIP/2.0 200 OK") && bound.contains("\r\nRequire: outbound\r\n"), "{bound}");
    assert!(bound.contains(";lr;ob>"), "{bound}");

    // A message to bob at the registrar arrives over the connection.
    let caller = Phone::new();
    caller.send(&registrar, &message(&caller, "bob@partner.example", 1, 5));
    let came = read(&mut phone);
    assert!(came.starts_with("MESSAGE sip:bob@") && came.ends_with("xxxxx"), "{came}");
    phone.write_all(ok(&came).as_bytes()).unwrap();
    assert!(caller.receive().starts_with("SIP/2.0 200 OK"));
    // The flow is gone: the edge answers 430, the registrar has no other flow, and the caller receives 480 (RFC
    // 5626 section 11.5).
    drop(phone);
    let answers = (2..1000).map(|number| {
        caller.send(&registrar, &message(&caller, "bob@partner.example", number, 5));
        caller.receive()
    });
    assert!(answers.take(900).any(|answer| answer.starts_with("SIP/2.0 480 ")));
}

/// Returns the UDP and TCP sockets of a phone, at one port.
fn both() -> (UdpSocket, TcpListener) {
    let pair = || {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let tcp = TcpListener::bind(udp.local_addr().unwrap()).ok()?;
        udp.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        Some((udp, tcp))
    };
    (0..100).find_map(|_| pair()).unwrap()
}

#[test]
fn oversized_datagrams_go_over_tcp_or_udp() {
    let server = Server::start(&[]);
    let (udp, tcp) = both();
    let mut bob = Phone { socket: udp, cseq: 0 };
    assert!(bob.ask(&server, "bob", "").starts_with("SIP/2.0 200 OK"));
    let caller = Phone::new();
    caller.send(&server, &message(&caller, "bob@example.com", 1, 100));
    let came = bob.receive();
    assert!(came.starts_with("MESSAGE") && came.contains("Via: SIP/2.0/UDP"), "{came}");
    bob.send(&server, &ok(&came));
    assert!(caller.receive().starts_with("SIP/2.0 200 OK"));
    caller.send(&server, &message(&caller, "bob@example.com", 2, 2000));
    let (mut stream, _) = tcp.accept().unwrap();
    let came = read(&mut stream);
    assert!(came.starts_with("MESSAGE") && came.contains("Via: SIP/2.0/TCP"), "{came}");
    stream.write_all(ok(&came).as_bytes()).unwrap();
    assert!(caller.receive().starts_with("SIP/2.0 200 OK"));
    // No process accepts connections any more, not even one that another test is starting and that shares this
    // process's descriptors for a moment; and the server has seen the end of the existing connection.
    TcpStream::from(OwnedFd::from(tcp)).shutdown(Shutdown::Both).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(again(|| stream.read(&mut [0; 64])).unwrap(), 0);
    drop(stream);
    for number in 3..5 {
        caller.send(&server, &message(&caller, "bob@example.com", number, 2000));
        let came = bob.receive();
        assert!(came.starts_with("MESSAGE") && came.contains("Via: SIP/2.0/UDP"), "{came}");
        bob.send(&server, &ok(&came));
        assert!(caller.receive().starts_with("SIP/2.0 200 OK"));
    }
}
