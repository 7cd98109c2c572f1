//! Tests of outgoing TLS connections to a domain: the server has to prove the domain's identity (RFC 5922).

use std::net::UdpSocket;

use strandline_tls::{ClientCertificates, ServerTls, Wire, domains};
use tokio::net::TcpListener;

use crate::certificates::Folder;
use crate::name_server::{NameServer, host, srv};
use crate::sip_server::{Server, again};
use crate::wire::{READ_TIMEOUT, next};

fn ask(socket: &UdpSocket, server: &Server, uri: &str) {
    let text = format!(
        "MESSAGE {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKm;rport\r\nMax-Forwards: 70\r\n\
         From: <sip:a@example.org>;tag=1\r\nTo: <{uri}>\r\nCall-ID: m\r\nCSeq: 1 MESSAGE\r\nContent-Length: 0\r\n\r\n",
        socket.local_addr().unwrap()
    );
    socket.send_to(text.as_bytes(), server.address("udp")).unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn domain_must_be_proved_by_its_certificate() {
    let folder = Folder::new("domains");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let dns = NameServer::start("tls", &[srv("_sips._tcp", port, 0), host()]);
    let config = folder.config(&dns.config());
    for (names, uris, proves) in [
        // The URI of the domain, whatever names are beside it; or its name if the certificate has no such URI.
        (&["decoy.example"][..], &["sip:other.example"][..], true),
        (&["Other.Example"], &[], true),
        // The host that DNS returned, a wildcard, another domain, a person; a name beside another domain's URI.
        (&["host.other.example"], &[], false),
        (&["*.example"], &[], false),
        (&["example"], &["sip:bob@other.example"], false),
        (&["other.example"], &["sip:another.example"], false),
        (&["127.0.0.1"], &[], false),
    ] {
        folder.certificate("peer", names, uris);
        let ca = folder.0.join("ca.pem");
        let tls = ServerTls::new(&folder.own("peer"), Some(&ca), ClientCertificates::Required).unwrap();
        let server = Server::start(&["--open-relay", "--config", config.to_str().unwrap()]);
        let alice = UdpSocket::bind("127.0.0.1:0").unwrap();
        alice.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        ask(&alice, &server, "sips:bob@other.example");
        let (stream, _) = tokio::time::timeout(READ_TIMEOUT, listener.accept()).await.unwrap().unwrap();
        let wire = Wire::accepted(stream, &tls).unwrap();
        let came = match wire.handshake().await {
            Ok(()) => next(&wire).await,
            Err(_) => String::new(),
        };
        let what = format!("{names:?} {uris:?}: {came}");
        if proves {
            assert!(came.starts_with("MESSAGE sips:bob@other.example SIP/2.0\r\nVia: SIP/2.0/TLS"), "{what}");
            // The SIP server was asked for its certificate, and has shown it.
            let shown = wire.peer_certificate().unwrap();
            assert!(domains(&shown).is_empty(), "an address proves no domain");
        } else {
            assert!(came.is_empty(), "{what}");
            let mut room = [0; 4096];
            let len = again(|| alice.recv(&mut room)).unwrap();
            assert!(room[..len].starts_with(b"SIP/2.0 500 "), "{what}");
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn servers_and_clients_may_have_separate_authorities() {
    let (folder, others) = (Folder::new("own"), Folder::new("others"));
    others.certificate("peer", &["other.example"], &[]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let dns = NameServer::start("roots", &[srv("_sips._tcp", port, 0), host()]);
    let tls = ServerTls::new(&others.own("peer"), None, ClientCertificates::None).unwrap();
    for (line, trusted) in
        [(String::new(), false), (format!("servers_ca = \"{}/ca.pem\"\n", others.0.display()), true)]
    {
        let config = folder.config(&format!("{line}{}", dns.config()));
        let server = Server::start(&["--open-relay", "--config", config.to_str().unwrap()]);
        let alice = UdpSocket::bind("127.0.0.1:0").unwrap();
        ask(&alice, &server, "sip:bob@other.example;transport=tls");
        let (stream, _) = tokio::time::timeout(READ_TIMEOUT, listener.accept()).await.unwrap().unwrap();
        let wire = Wire::accepted(stream, &tls).unwrap();
        let came = match wire.handshake().await {
            Ok(()) => next(&wire).await,
            Err(_) => String::new(),
        };
        assert_eq!(came.starts_with("MESSAGE "), trusted, "{came}");
    }
}
