//! Tests of connections that neighbours open to `strandline sip` and that it reuses for requests to them (RFC
//! 5923).

use std::net::UdpSocket;

use strandline_tls::{ClientCertificates, ServerTls, Wire};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::certificates::Folder;
use crate::name_server::{NameServer, host, srv};
use crate::sip_server::Server;
use crate::wire::{READ_TIMEOUT, next};

/// Sends a request that is to be forwarded to a URI.
fn ask(server: &Server, uri: &str, branch: &str) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let text = format!(
        "MESSAGE {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bK{branch};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:a@example.org>;tag=1\r\nTo: <{uri}>\r\nCall-ID: {branch}\r\nCSeq: 1 MESSAGE\r\nContent-Length: 0\r\n\r\n",
        socket.local_addr().unwrap()
    );
    socket.send_to(text.as_bytes(), server.address("udp")).unwrap();
}

/// Returns the first request of a neighbour: its Via names the port where it listens, and whether requests may
/// use this connection.
fn options(transport: &str, port: u16, alias: &str) -> String {
    format!(
        "OPTIONS sip:example.com SIP/2.0\r\nVia: SIP/2.0/{transport} other.example:{port};branch=z9hG4bKo{alias}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:other.example>;tag=1\r\nTo: <sip:example.com>\r\nCall-ID: o\r\n\
         CSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
    )
}

async fn connect(server: &Server, folder: &Folder, own: Option<&str>) -> Wire {
    let stream = TcpStream::connect(server.address("tls")).await.unwrap();
    let wire = Wire::opened(stream, &folder.client(own), "127.0.0.1").unwrap();
    wire.handshake().await.unwrap();
    wire
}

/// Accepts a connection at the neighbour's port, and returns it with its first message.
async fn accepted(listener: &TcpListener, tls: &ServerTls) -> (Wire, String) {
    let (stream, _) = tokio::time::timeout(READ_TIMEOUT, listener.accept()).await.unwrap().unwrap();
    let wire = Wire::accepted(stream, tls).unwrap();
    wire.handshake().await.unwrap();
    let came = next(&wire).await;
    (wire, came)
}

#[tokio::test(flavor = "current_thread")]
async fn alias_connection_carries_requests_for_proved_domain() {
    let folder = Folder::new("alias");
    folder.certificate("peer", &["other.example"], &[]);
    folder.certificate("stranger", &["another.example"], &[]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let dns = NameServer::start("alias", &[srv("_sips._tcp", port, 0), host()]);
    let config = folder.config(&format!("client_certificates = \"optional\"\n{}", dns.config()));
    let ca = folder.0.join("ca.pem");
    let tls = ServerTls::new(&folder.own("peer"), Some(&ca), ClientCertificates::Required).unwrap();
    for (own, alias, reused) in [
        (Some("peer"), ";alias", true),
        // The neighbour doesn't ask for reuse; it shows no certificate (section 9.2), or one for another domain
        // (section 9.3).
        (Some("peer"), "", false),
        (None, ";alias", false),
        (Some("stranger"), ";alias", false),
    ] {
        let what = format!("{own:?} {alias}");
        let server = Server::start(&["--open-relay", "--config", config.to_str().unwrap()]);
        let wire = connect(&server, &folder, own).await;
        wire.try_write(options("TLS", port, alias).as_bytes()).unwrap();
        let ok = next(&wire).await;
        assert!(ok.starts_with("SIP/2.0 200"), "{what}: {ok}");
        ask(&server, "sips:bob@other.example", "one");
        if reused {
            let came = next(&wire).await;
            assert!(
                came.starts_with("MESSAGE sips:bob@other.example SIP/2.0\r\nVia: SIP/2.0/TLS"),
                "{what}: {came}"
            );
            // After it is closed, the server opens another connection, and offers it for reuse.
            drop(wire);
            let mut number = 0;
            let (_wire, came) = loop {
                number += 1;
                ask(&server, "sips:bob@other.example", &format!("again{number}"));
                let soon = std::time::Duration::from_millis(300);
                match tokio::time::timeout(soon, accepted(&listener, &tls)).await {
                    Ok(came) => break came,
                    Err(_) => assert!(number < 50, "nobody connects"),
                }
            };
            assert!(came.starts_with("MESSAGE sips:bob@other.example"), "{what}: {came}");
            assert!(came.lines().nth(1).unwrap().contains(";alias"), "{what}: {came}");
        } else {
            let (_wire, came) = accepted(&listener, &tls).await;
            assert!(came.starts_with("MESSAGE sips:bob@other.example"), "{what}: {came}");
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn over_tcp_alias_means_nothing() {
    let folder = Folder::new("alias-tcp");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let dns = NameServer::start("alias-tcp", &[srv("_sip._tcp", port, 0), host()]);
    let config = folder.config(&dns.config());
    let server = Server::start(&["--open-relay", "--config", config.to_str().unwrap()]);
    let mut stream = TcpStream::connect(server.address("tcp")).await.unwrap();
    stream.write_all(options("TCP", port, ";alias").as_bytes()).await.unwrap();
    let mut room = [0; 4096];
    let len = stream.read(&mut room).await.unwrap();
    assert!(room[..len].starts_with(b"SIP/2.0 200"));
    ask(&server, "sip:bob@other.example;transport=tcp", "tcp");
    let (mut came, _) = tokio::time::timeout(READ_TIMEOUT, listener.accept()).await.unwrap().unwrap();
    let len = came.read(&mut room).await.unwrap();
    assert!(room[..len].starts_with(b"MESSAGE sip:bob@other.example;transport=tcp SIP/2.0"));
}
