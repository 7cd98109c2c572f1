//! Tests of `strandline sip` with several processes: phones over TLS, WebSocket and SCTP.

use std::io::ErrorKind;
use std::net::UdpSocket;

use strandline::{Endpoint, SendInfo, Stack};
use strandline_tls::Wire;
use tokio::net::TcpStream;
use tungstenite::{Error, Message};

use crate::certificates::Folder;
use crate::processes::{kill, metric, restarts, workers};
use crate::sip_server::{Server, again};
use crate::waiting::at_last;
use crate::wire::{READ_TIMEOUT, next};

fn register(transport: &str, user: &str) -> String {
    let secure = transport.to_lowercase();
    format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/{transport} 127.0.0.1:5061;branch=z9hG4bK{user};rport\r\n\
         From: <sip:{user}@example.com>;tag=1\r\nTo: <sip:{user}@example.com>\r\nCall-ID: {user}\r\n\
         CSeq: 1 REGISTER\r\nContact: <sip:{user}@192.0.2.7:5061;transport={secure};ob>\r\nSupported: outbound\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

fn message(to: &str, id: &str) -> String {
    format!(
        "MESSAGE sip:{to}@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK{id};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:a@example.org>;tag=1\r\nTo: <sip:{to}@example.com>\r\nCall-ID: {id}\r\nCSeq: 1 MESSAGE\r\n\
         Content-Length: 2\r\n\r\nhi"
    )
}

fn ok(request: &str) -> String {
    let names = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
    let same = |line: &&str| names.iter().any(|name| line.starts_with(name));
    let lines: String = request.lines().filter(same).map(|line| format!("{line}\r\n")).collect();
    format!("SIP/2.0 200 OK\r\n{lines}Content-Length: 0\r\n\r\n")
}

/// Returns sockets of which each process receives some.
fn askers() -> Vec<UdpSocket> {
    let asker = |_| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        socket
    };
    (0..8).map(asker).collect()
}

/// Waits on a separate thread, so that associations are driven meanwhile.
async fn answer(asker: &UdpSocket) -> String {
    let asker = asker.try_clone().unwrap();
    let receive = move || {
        let mut room = [0; 4000];
        let len = again(|| asker.recv(&mut room)).unwrap();
        String::from_utf8(room[..len].to_vec()).unwrap()
    };
    tokio::task::spawn_blocking(receive).await.unwrap()
}

#[tokio::test(flavor = "current_thread")]
async fn tls_phones_are_called_through_their_process() {
    let folder = Folder::new("processes");
    let config = folder.config("[server]\nprocesses = 2\n");
    let server = Server::start(&["--config", config.to_str().unwrap()]);
    let askers = askers();
    for number in 0..4 {
        let user = format!("tls{number}");
        let stream = TcpStream::connect(server.address("tls")).await.unwrap();
        let phone = Wire::opened(stream, &folder.client(None), "127.0.0.1").unwrap();
        phone.handshake().await.unwrap();
        phone.try_write(register("TLS", &user).as_bytes()).unwrap();
        assert!(next(&phone).await.starts_with("SIP/2.0 200"));
        for (at, asker) in askers.iter().enumerate() {
            let id = format!("{user}-{at}");
            asker.send_to(message(&user, &id).as_bytes(), server.address("udp")).unwrap();
            let came = next(&phone).await;
            assert!(came.starts_with("MESSAGE ") && came.contains(&id), "{came}");
            phone.try_write(ok(&came).as_bytes()).unwrap();
            let answered = answer(asker).await;
            assert!(answered.starts_with("SIP/2.0 200") && answered.contains(&id), "{answered}");
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn phones_over_sctp_are_called_by_all_processes() {
    for style in ["one-to-many", "one-to-one"] {
        let server =
            Server::start(&["--processes", "3", "--listen", "sctp:127.0.0.1:0", "--sctp-style", style]);
        let stack = Stack::builder()
            .remote_encapsulation_port(server.carrier())
            .udp("127.0.0.1:0".parse().unwrap())
            .unwrap();
        let phone = Endpoint::bind(&stack, 0).unwrap();
        let peer = strandline::Peer::new([127, 0, 0, 1], 5060);
        phone.send_to_peer(&peer, register("SCTP", "bob").into(), SendInfo::default()).await.unwrap();
        let receive = async || tokio::time::timeout(READ_TIMEOUT, phone.recv_from()).await.unwrap().unwrap();
        let (id, came) = receive().await;
        assert!(came.data.starts_with(b"SIP/2.0 200 OK"), "{style}: {came:?}");
        for (at, asker) in askers().iter().enumerate() {
            let name = format!("sctp-{at}");
            asker.send_to(message("bob", &name).as_bytes(), server.address("udp")).unwrap();
            let (_, came) = receive().await;
            let text = String::from_utf8(came.data.to_vec()).unwrap();
            assert!(text.starts_with("MESSAGE ") && text.contains(&name), "{style}: {text}");
            phone.send_to(id, ok(&text).into(), SendInfo::default()).await.unwrap();
            let answered = answer(asker).await;
            assert!(answered.starts_with("SIP/2.0 200") && answered.contains(&name), "{style}: {answered}");
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn every_process_sets_up_associations_of_its_own() {
    let server = Server::start(&["--processes", "2", "--listen", "sctp:127.0.0.1:0", "--open-relay"]);
    let stack = Stack::builder().udp("127.0.0.79:9899".parse().unwrap()).unwrap();
    let phone = Endpoint::bind(&stack, 5070).unwrap();
    for (at, asker) in askers().iter().enumerate() {
        let name = format!("out-{at}");
        let text = message("bob", &name)
            .replace("MESSAGE sip:bob@example.com", "MESSAGE sip:bob@127.0.0.79:5070;transport=sctp");
        asker.send_to(text.as_bytes(), server.address("udp")).unwrap();
        let (id, came) = tokio::time::timeout(READ_TIMEOUT, phone.recv_from()).await.unwrap().unwrap();
        let text = String::from_utf8(came.data.to_vec()).unwrap();
        assert!(text.starts_with("MESSAGE ") && text.contains(&name), "{text}");
        phone.send_to(id, ok(&text).into(), SendInfo::default()).await.unwrap();
        assert!(answer(asker).await.starts_with("SIP/2.0 200"));
    }
}

/// Sends a MESSAGE from the socket and returns the first response that isn't a 100.
fn asked(asker: &UdpSocket, server: &Server, to: &str, id: &str) -> String {
    asker.send_to(message(to, id).as_bytes(), server.address("udp")).unwrap();
    let mut room = [0; 4000];
    loop {
        let len = again(|| asker.recv(&mut room)).unwrap();
        let text = String::from_utf8(room[..len].to_vec()).unwrap();
        if text.contains(id) && !text.starts_with("SIP/2.0 100") {
            return text;
        }
    }
}

#[test]
fn websocket_phones_are_called_through_their_process() {
    let listen = ["--listen", "ws:127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    let server = Server::start(&[&listen[..], &["--processes", "2"]].concat());
    // So many that each process has some, as the kernel distributes them.
    let mut phones = Vec::new();
    at_last("both processes have two", || {
        let mut phone = crate::web_phone::connect(&server);
        let user = format!("ws{}", phones.len());
        phone.send(Message::text(crate::web_phone::register(&user))).unwrap();
        assert!(crate::web_phone::next(&mut phone).starts_with("SIP/2.0 200"));
        phones.push((user, phone));
        metric(&server, "connections").iter().all(|count| *count > 1.0)
    });
    let askers = askers();
    for (user, phone) in &mut phones {
        for (at, asker) in askers.iter().enumerate() {
            let id = format!("{user}-{at}");
            asker.send_to(message(user, &id).as_bytes(), server.address("udp")).unwrap();
            let came = crate::web_phone::next(phone);
            assert!(came.starts_with("MESSAGE ") && came.contains(&id), "{came}");
            phone.send(Message::text(ok(&came))).unwrap();
        }
    }
    // Each phone calls the next, and back.
    for caller in 0..phones.len() {
        let callee = (caller + 1) % phones.len();
        let (to, id) = (phones[callee].0.clone(), format!("from-{caller}"));
        let text = message(&to, &id).replace("SIP/2.0/UDP 192.0.2.9", "SIP/2.0/WS caller.invalid");
        phones[caller].1.send(Message::text(text)).unwrap();
        let came = crate::web_phone::next(&mut phones[callee].1);
        assert!(came.starts_with("MESSAGE ") && came.contains(&id), "{came}");
        phones[callee].1.send(Message::text(ok(&came))).unwrap();
        let answered = crate::web_phone::next(&mut phones[caller].1);
        assert!(answered.starts_with("SIP/2.0 200") && answered.contains(&id), "{answered}");
    }
    // A phone that unregisters is gone at both processes.
    let (user, mut phone) = phones.remove(0);
    phone.close(None).unwrap();
    while phone.read().is_ok() {}
    let mut tries = 0;
    for asker in &askers {
        at_last("it is gone", || {
            tries += 1;
            asked(asker, &server, &user, &format!("gone-{tries}-")).starts_with("SIP/2.0 404")
        });
    }
    // Phones connected to a process that dies become unreachable, those of the other process don't.
    kill(workers(&server)[1]);
    at_last("another has taken its place", || {
        restarts(&server) == 1 && metric(&server, "users") == [phones.len() as f64; 2]
    });
    let count = phones.len() - metric(&server, "connections")[0] as usize;
    assert!((1..phones.len()).contains(&count), "{count} of {}", phones.len());
    let mut lost = Vec::new();
    at_last("its connections have ended", || {
        phones.retain_mut(|(user, phone)| {
            phone.get_mut().set_nonblocking(true).unwrap();
            let stands = |error| matches!(error, Error::Io(error) if error.kind() == ErrorKind::WouldBlock);
            let is_there = phone.read().is_err_and(stands);
            lost.extend((!is_there).then(|| user.clone()));
            is_there
        });
        lost.len() == count
    });
    for user in lost {
        let answer = asked(&askers[0], &server, &user, &format!("lost-{user}"));
        assert!(answer.starts_with("SIP/2.0 480"), "{answer}");
    }
}
