//! Tests of `strandline sip` over TLS: phones, neighbours with certificates, and outgoing connections.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Command;

use strandline_tls::{ClientCertificates, ClientTls, ServerTls, Wire};
use tokio::net::{TcpListener, TcpStream};

use crate::certificates::Folder;
use crate::sip_generator::unrefused;
use crate::sip_server::{PROGRAM, Server};
use crate::wire::{READ_TIMEOUT, next, read};

async fn connect(server: &Server, tls: &ClientTls) -> io::Result<Wire> {
    let stream = TcpStream::connect(server.address("tls")).await?;
    let wire = Wire::opened(stream, tls, "127.0.0.1")?;
    wire.handshake().await?;
    Ok(wire)
}

fn register(user: &str) -> String {
    format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/TLS 127.0.0.1:5061;branch=z9hG4bK{user};rport\r\n\
         From: <sip:{user}@example.com>;tag=1\r\nTo: <sip:{user}@example.com>\r\nCall-ID: {user}\r\n\
         CSeq: 1 REGISTER\r\nContact: <sip:{user}@127.0.0.1:5061;transport=tls>\r\nContent-Length: 0\r\n\r\n"
    )
}

fn message(to: &str, transport: &str) -> String {
    format!(
        "MESSAGE {to} SIP/2.0\r\nVia: SIP/2.0/{transport} 127.0.0.1:9;branch=z9hG4bKm;rport\r\nMax-Forwards: 70\r\n\
         From: <sip:a@example.org>;tag=1\r\nTo: <{to}>\r\nCall-ID: m\r\nCSeq: 1 MESSAGE\r\nContent-Length: 2\r\n\r\nhi"
    )
}

#[tokio::test(flavor = "current_thread")]
async fn tls_phone_is_reached_over_its_connection() {
    let folder = Folder::new("phone");
    let server = Server::start(&["--config", folder.config("").to_str().unwrap()]);
    // A silent client does not block others.
    let _silent = TcpStream::connect(server.address("tls")).await.unwrap();
    let phone = connect(&server, &folder.client(None)).await.unwrap();
    assert_eq!(phone.try_write(register("bob").as_bytes()).unwrap(), register("bob").len());
    let ok = next(&phone).await;
    assert!(ok.starts_with("SIP/2.0 200 OK\r\nVia: SIP/2.0/TLS"), "{ok}");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for to in ["sip:bob@example.com", "sips:bob@example.com"] {
        let text = message(to, "UDP").replace("z9hG4bKm", &format!("z9hG4bK{}", to.len()));
        socket.send_to(text.as_bytes(), server.address("udp")).unwrap();
        let came = next(&phone).await;
        let line = "MESSAGE sip:bob@127.0.0.1:5061;transport=tls SIP/2.0\r\nVia: SIP/2.0/TLS 127.0.0.1:";
        assert!(came.starts_with(line) && came.ends_with("\r\n\r\nhi"), "{came}");
    }
}

/// Returns a text in a WebSocket frame as a client sends it, with a mask of zeros.
fn frame(text: &str) -> Vec<u8> {
    let len = (text.len() as u16).to_be_bytes();
    [&[0x81, 0xfe], &len[..], &[0; 4], text.as_bytes()].concat()
}

#[tokio::test(flavor = "current_thread")]
async fn a_phone_registers_over_websocket_within_tls() {
    let folder = Folder::new("wss");
    let config = folder.config("[[listen]]\nprotocol = \"wss\"\naddress = \"127.0.0.1:0\"\n");
    let server = Server::start(&["--config", config.to_str().unwrap()]);
    let stream = TcpStream::connect(server.address("wss")).await.unwrap();
    let phone = Wire::opened(stream, &folder.client(None), "127.0.0.1").unwrap();
    phone.handshake().await.unwrap();
    let handshake = "GET / HTTP/1.1\r\nHost: sip\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Protocol: sip\r\n\r\n";
    // A client may send before the handshake's response arrives.
    let register = register("bob").replace("TLS", "WSS").replace("transport=tls", "transport=ws");
    phone.try_write(&[handshake.as_bytes(), &frame(&register)].concat()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"Content-Length: 0\r\n\r\n") {
        answer.extend(read(&phone).await);
    }
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    assert!(answer.contains("SIP/2.0 200 OK\r\nVia: SIP/2.0/WSS 127.0.0.1"), "{answer}");
    // WSS is as secure as TLS.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(message("sips:bob@example.com", "UDP").as_bytes(), server.address("udp")).unwrap();
    let bytes = read(&phone).await;
    let came = String::from_utf8_lossy(&bytes[4..]);
    let begin = "MESSAGE sip:bob@127.0.0.1:5061;transport=ws SIP/2.0\r\nVia: SIP/2.0/WSS 127.0.0.1:";
    assert!(came.starts_with(begin), "{came}");
}

#[tokio::test(flavor = "current_thread")]
async fn only_authenticated_neighbours_relay_to_other_hosts() {
    let folder = Folder::new("neighbours");
    let config = folder.config("peers = [\"Trunk.example.net\"]\n[dns]\nenabled = false\n");
    let server = Server::start(&["--config", config.to_str().unwrap()]);
    for (own, answer) in
        [(None, "403 Relaying Denied"), (Some("other"), "403 Relaying Denied"), (Some("trunk"), "502")]
    {
        let wire = connect(&server, &folder.client(own)).await.unwrap();
        let text = message("sip:b@elsewhere.example", "TLS");
        wire.try_write(text.as_bytes()).unwrap();
        let came = next(&wire).await;
        assert!(came.starts_with(&format!("SIP/2.0 {answer}")), "{own:?}: {came}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn missing_client_certificate_is_refused() {
    let folder = Folder::new("required");
    let config = folder.config("client_certificates = \"required\"\n");
    let server = Server::start(&["--config", config.to_str().unwrap()]);
    let wire = connect(&server, &folder.client(Some("other"))).await.unwrap();
    wire.try_write(register("bob").as_bytes()).unwrap();
    assert!(next(&wire).await.starts_with("SIP/2.0 200"));
    // In TLS 1.3 a client learns of the refusal with its first read.
    let refused = match connect(&server, &folder.client(None)).await {
        Err(_) => true,
        Ok(wire) => loop {
            if std::future::poll_fn(|context| wire.poll_read_ready(context)).await.is_err() {
                break true;
            }
            match wire.try_read(&mut vec![0; 32 << 10]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => break read.is_err(),
            }
        },
    };
    assert!(refused);
}

#[tokio::test(flavor = "current_thread")]
async fn the_server_opens_connections_and_checks_who_answers() {
    let folder = Folder::new("opens");
    let server = Server::start(&["--open-relay", "--config", folder.config("").to_str().unwrap()]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut reached = Vec::new();
    for own in ["server", "other"] {
        let tls = ServerTls::new(&folder.own(own), None, ClientCertificates::None).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let text = message(&format!("sip:b@127.0.0.1:{port};transport=tls"), "UDP").replace("z9hG4bKm", own);
        socket.send_to(text.as_bytes(), server.address("udp")).unwrap();
        let (stream, _) = tokio::time::timeout(READ_TIMEOUT, listener.accept()).await.unwrap().unwrap();
        let wire = Wire::accepted(stream, &tls).unwrap();
        match wire.handshake().await {
            Ok(()) => reached.push((own, next(&wire).await)),
            Err(error) => assert_eq!(own, "other", "{error}"),
        }
    }
    assert_eq!(reached[0].0, "server");
    assert!(reached[0].1.starts_with("MESSAGE sip:b@127.0.0.1"), "{reached:?}");
    // A server with another domain's certificate receives nothing of the message.
    assert!(reached.get(1).is_none_or(|(_, text)| text.is_empty()), "{reached:?}");
}

#[test]
fn what_is_wrong_with_the_table_is_told() {
    let folder = Folder::new("config");
    let check = |path: PathBuf, replace: (&str, &str)| {
        let text = std::fs::read_to_string(&path).unwrap().replace(replace.0, replace.1);
        std::fs::write(&path, text).unwrap();
        let output = Command::new(PROGRAM).args(["sip", "--check", "--config"]).arg(&path).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (right, told) = check(folder.config(""), ("", ""));
    assert!(right && told.starts_with("warning: listen.advertise: tls on 127.0.0.1"), "{told}");
    for (more, replace, says) in [
        ("", ("server.key", "other.key"), "server.pem"),
        ("", ("ca = ", "# "), ""),
        ("client_certificates = \"some\"\n", ("", ""), "tls.client_certificates: unknown value \"some\""),
        ("peers = [\"trunk.example.net\"]\n", ("ca = ", "# "), "tls.ca: required to verify"),
        ("", ("certificate = ", "# "), "missing field `certificate`"),
        ("", ("server.pem", "none.pem"), ": tls.certificate: "),
        ("", ("server.key", "none.pem"), ": tls.key: "),
        ("", ("ca.pem", "none.pem"), ": tls.ca: "),
        ("servers_ca = \"/none.pem\"\n", ("", ""), ": tls.servers_ca: /none.pem: No such file"),
        ("", ("server.key", "server.pem"), "server.pem: the file contains no PEM private key"),
        (
            "servers_ca = \"/dev/null\"\n",
            ("", ""),
            "tls.servers_ca: /dev/null: the file contains no PEM certificate",
        ),
    ] {
        let (right, told) = check(folder.config(more), replace);
        assert_eq!(right, says.is_empty(), "{told}");
        assert!(told.contains(says), "{told} lacks {says}");
    }
    let output =
        Command::new(PROGRAM).args(["sip", "--check", "--listen", "tls:127.0.0.1:0"]).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("tls: listening for tls requires"));
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the program under test goes by the system's clock")]
fn certificate_others_reject_is_reported() {
    const DAY: u64 = 86_400;
    let folder = Folder::new("flaws");
    let check = || {
        let path = folder.config("");
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replace("address =", "advertise = \"sip.example.com\"\naddress =");
        std::fs::write(&path, format!("domains = [\"example.com\"]\n{text}")).unwrap();
        let output = Command::new(PROGRAM).args(["sip", "--check", "--config"]).arg(&path).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let names = &["example.com", "sip.example.com"][..];
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    for (names, from, until, right, says) in [
        (names, now - DAY, now + 90 * DAY, true, ""),
        (
            names,
            now - DAY,
            now + 10 * DAY - 60,
            true,
            "warning: tls.certificate: the certificate expires in 9 days",
        ),
        (
            names,
            now - 9 * DAY,
            now - DAY - 60,
            false,
            "error: tls.certificate: the certificate expired 1 day ago",
        ),
        (
            names,
            now + DAY + 3600,
            now + 9 * DAY,
            false,
            "error: tls.certificate: the certificate becomes valid in 1 day",
        ),
        (
            &["sip.example.com"],
            now - DAY,
            now + 90 * DAY,
            true,
            "the certificate is not valid for example.com: TLS peers",
        ),
        (
            &["*.example.com"],
            now - DAY,
            now + 90 * DAY,
            true,
            "the certificate is not valid for sip.example.com, example.com: ",
        ),
        (&["*.example.com"], now - DAY, now + 90 * DAY, true, "wildcards do not count"),
    ] {
        folder.certificate_for("server", names, (from, until));
        let (success, told) = check();
        assert_eq!((success, told.is_empty()), (right, says.is_empty()), "{told}");
        assert!(told.contains(says), "{told} lacks {says}");
    }
    // A running server reports it, and serves.
    let config = folder.config("");
    folder.certificate_for("server", &["127.0.0.1"], (now - 9 * DAY, now - DAY));
    assert!(Server::start(&["--config", config.to_str().unwrap()]).port("udp") > 0);
}

#[test]
fn load_over_tls_trusts_the_given_authority() {
    let folder = Folder::new("load");
    let config = folder.config("");
    let start = || Server::start(&["--config", config.to_str().unwrap()]);
    let ca = folder.0.join("ca.pem");
    // A new server for each: contacts of an earlier load would ring as well.
    let load = |arguments: &str| {
        let server = start();
        let to = server.address("tls").to_string();
        let common =
            ["load", "sip", "--json", "--time", "0.3", "--warm-up", "0", "--users", "1000", "--server", &to];
        Command::new(PROGRAM).args(common).args(arguments.split_whitespace()).output().unwrap()
    };
    let trusting = format!("--transport tls --sources 10 --ca {}", ca.display());
    for what in ["register", "register --lifetime transaction", "call"] {
        let report = unrefused(|| load(&format!("{what} {trusting}")));
        assert!(report["succeeded"].as_u64() > Some(0), "{what}: {report}");
    }
    for (arguments, hint) in [
        (format!("register {trusting} --server-name elsewhere.example.net"), "connecting to 127.0.0.1"),
        ("register --transport tls".to_owned(), "--transport tls requires --ca"),
        (format!("register --ca {}", ca.display()), "requires --transport tls"),
        ("register --server-name a".to_owned(), "requires --transport tls"),
    ] {
        let output = load(&arguments);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && told.contains(hint), "{arguments}: {told}");
    }
}
