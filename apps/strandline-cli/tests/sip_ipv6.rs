//! Tests of `strandline sip` over IPv6, and over both families at once.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use crate::phones::{Carrier, Phone};
use crate::sip_server::{PROGRAM, Server, again};

fn serve(arguments: &[&str]) -> Server {
    Server::announced(
        Command::new(PROGRAM).args(["sip", "--json", "--domain", "example.com"]).args(arguments),
    )
}

#[test]
fn phones_call_one_another_over_ipv6() {
    let server = serve(&["--listen", "udp:[::1]:0", "--listen", "tcp:[::1]:0"]);
    let carriers = [Carrier::Udp, Carrier::UdpBehindNat, Carrier::Tcp, Carrier::Tcp];
    let mut phones: Vec<Phone> = (0..)
        .zip(carriers)
        .map(|(number, carrier)| Phone::new(&format!("phone{number}"), carrier, &server))
        .collect();
    for phone in &mut phones {
        let answer = phone.register();
        assert!(answer.starts_with("SIP/2.0 200") && answer.contains("received=::1"), "{answer}");
    }
    for caller in 0..phones.len() {
        for callee in (0..phones.len()).filter(|callee| *callee != caller) {
            crate::phones::call(&mut phones, caller, callee);
        }
    }
}

/// A phone that sends and receives datagrams.
struct Datagrams(UdpSocket, SocketAddr);

impl Datagrams {
    fn new(local: &str, port: u16) -> Self {
        let socket = UdpSocket::bind(local).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let server = SocketAddr::new(socket.local_addr().unwrap().ip(), port);
        Self(socket, server)
    }

    fn send(&self, method: &str, uri: &str, to: &str) {
        let at = self.0.local_addr().unwrap();
        let text = format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bK{method}{};rport\r\nMax-Forwards: 70\r\n\
             From: <sip:{to}@example.com>;tag=1\r\nTo: <sip:{to}@example.com>\r\nCall-ID: {method}{at}\r\n\
             CSeq: 1 {method}\r\nContact: <sip:{to}@{at}>\r\nContent-Length: 0\r\n\r\n",
            at.port()
        );
        self.0.send_to(text.as_bytes(), self.1).unwrap();
    }

    fn receive(&self) -> (String, SocketAddr) {
        let mut room = [0; 4096];
        let (len, from) = again(|| self.0.recv_from(&mut room)).unwrap();
        (String::from_utf8(room[..len].to_vec()).unwrap(), from)
    }
}

#[test]
fn one_socket_takes_both_families() {
    let server = serve(&["--listen", "udp:[::]:0", "--advertise", "sip.example.com"]);
    let port = server.port("udp");
    let phones = [Datagrams::new("[::1]:0", port), Datagrams::new("127.0.0.1:0", port)];
    for (phone, user) in phones.iter().zip(["six", "four"]) {
        phone.send("REGISTER", "sip:example.com", user);
        let (answer, from) = phone.receive();
        assert!(answer.starts_with("SIP/2.0 200"), "{answer}");
        assert_eq!(from, phone.1);
        let received = format!("received={}", phone.0.local_addr().unwrap().ip());
        assert!(answer.contains(&received), "{answer}");
    }
    for (caller, user, callee) in [(&phones[0], "four", &phones[1]), (&phones[1], "six", &phones[0])] {
        caller.send("MESSAGE", &format!("sip:{user}@example.com"), user);
        let (came, from) = callee.receive();
        let at = callee.0.local_addr().unwrap();
        assert!(came.starts_with(&format!("MESSAGE sip:{user}@{at} SIP/2.0\r\n")), "{came}");
        assert_eq!(from, callee.1);
    }
}
