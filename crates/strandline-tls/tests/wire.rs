//! Tests of the two ends of a connection, with and without TLS.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first error")]

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use strandline_tls::{
    ClientCertificates, ClientTls, DatabaseTls, OwnFiles, Pem, ServerTls, Verify, Wire, domains,
};
use tokio::net::{TcpListener, TcpStream};

/// A folder of certificates that is removed with this value.
struct Folder(PathBuf);

impl Folder {
    /// Creates `ca.pem`, and NAME.pem and NAME.key signed by it for each of the others.
    fn new(test: &str, names: &[(&str, &str)]) -> Self {
        let folder = std::env::temp_dir().join(format!("strandline-tls-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let ca_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&ca_key).unwrap();
        std::fs::write(folder.join("ca.pem"), ca.pem()).unwrap();
        let issuer = Issuer::new(params, ca_key);
        for (file, subject) in names {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![(*subject).to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            std::fs::write(folder.join(format!("{file}.pem")), certificate.pem()).unwrap();
            std::fs::write(folder.join(format!("{file}.key")), key.serialize_pem()).unwrap();
        }
        Self(folder)
    }

    fn own(&self, name: &str) -> OwnFiles {
        OwnFiles { certificate: self.0.join(format!("{name}.pem")), key: self.0.join(format!("{name}.key")) }
    }

    fn ca(&self) -> PathBuf {
        self.0.join("ca.pem")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let opened = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (opened, listener.accept().await.unwrap().0)
}

async fn read(wire: &Wire, room: &mut [u8]) -> io::Result<usize> {
    loop {
        std::future::poll_fn(|context| wire.poll_read_ready(context)).await?;
        match wire.try_read(room) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

async fn write(wire: &Wire, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() || !wire.try_flush()? {
        match wire.try_write(bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => wire.tcp().writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sends `bytes` from the client to the server, and finally half as much back.
async fn exchange(client: &Wire, server: &Wire, bytes: usize) -> io::Result<()> {
    let text: Vec<u8> = (0..bytes).map(|i| i as u8).collect();
    let there = async { write(client, &text).await };
    let back = async {
        let (mut room, mut received) = (vec![0; 32 << 10], Vec::new());
        while received.len() < bytes {
            let len = read(server, &mut room).await?;
            assert!(len > 0, "ended after {}", received.len());
            received.extend_from_slice(&room[..len]);
        }
        assert!(received == text);
        write(server, b"done").await
    };
    let done = async {
        let mut room = vec![0; 32 << 10];
        let len = read(client, &mut room).await?;
        assert_eq!(&room[..len], b"done");
        Ok::<_, io::Error>(())
    };
    tokio::try_join!(there, back, done).map(|_| ())
}

#[tokio::test(flavor = "current_thread")]
async fn what_goes_in_comes_out() {
    let folder = Folder::new("exchange", &[("server", "sip.example.com")]);
    let server_tls = ServerTls::new(&folder.own("server"), None, ClientCertificates::None).unwrap();
    let client_tls = ClientTls::new(&folder.ca(), None).unwrap();
    for bytes in [1, 20_000, 3_000_000] {
        let (opened, accepted) = pair().await;
        exchange(&Wire::plain(opened), &Wire::plain(accepted), bytes).await.unwrap();
        let (opened, accepted) = pair().await;
        let client = Wire::opened(opened, &client_tls, "sip.example.com").unwrap();
        let server = Wire::accepted(accepted, &server_tls).unwrap();
        assert!(client.is_handshaking() && server.is_handshaking());
        exchange(&client, &server, bytes).await.unwrap();
        assert!(!client.is_handshaking() && !server.is_handshaking());
        assert_eq!(domains(&client.peer_certificate().unwrap()), ["sip.example.com"]);
        assert_eq!(server.peer_certificate(), None);
        client.close();
        assert_eq!(read(&server, &mut [0; 100]).await.unwrap(), 0);
    }
}

/// Without close_notify anybody on the way can have cut off what was sent.
#[tokio::test(flavor = "current_thread")]
async fn an_end_of_tcp_alone_is_an_error() {
    let folder = Folder::new("cut", &[("server", "sip.example.com")]);
    let server_tls = ServerTls::new(&folder.own("server"), None, ClientCertificates::None).unwrap();
    let client_tls = ClientTls::new(&folder.ca(), None).unwrap();
    for closes in [false, true] {
        let (opened, accepted) = pair().await;
        let client = Wire::opened(opened, &client_tls, "sip.example.com").unwrap();
        let server = Wire::accepted(accepted, &server_tls).unwrap();
        exchange(&client, &server, 100).await.unwrap();
        write(&server, b"the last").await.unwrap();
        if closes {
            server.close();
        }
        drop(server);
        let mut room = vec![0; 32 << 10];
        assert_eq!(read(&client, &mut room).await.unwrap(), 8, "what came before is read");
        let wanted = if closes { Ok(0) } else { Err(ErrorKind::UnexpectedEof) };
        // The result stays when it is asked for again.
        for _ in 0..2 {
            assert_eq!(read(&client, &mut room).await.map_err(|error| error.kind()), wanted);
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn wrong_or_untrusted_certificate_is_refused() {
    let folder = Folder::new("refused", &[("server", "sip.example.com")]);
    let stranger = Folder::new("stranger", &[]);
    let server_tls = ServerTls::new(&folder.own("server"), None, ClientCertificates::None).unwrap();
    for (ca, name) in [(folder.ca(), "other.example.com"), (stranger.ca(), "sip.example.com")] {
        let (opened, accepted) = pair().await;
        let client = Wire::opened(opened, &ClientTls::new(&ca, None).unwrap(), name).unwrap();
        let server = Wire::accepted(accepted, &server_tls).unwrap();
        let error = exchange(&client, &server, 100).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn clients_show_certificates_where_they_must() {
    let folder = Folder::new("mutual", &[("server", "sip.example.com"), ("trunk", "trunk.example.net")]);
    let with = ClientTls::new(&folder.ca(), Some(&folder.own("trunk"))).unwrap();
    let without = ClientTls::new(&folder.ca(), None).unwrap();
    for (clients, client_tls, proved) in [
        (ClientCertificates::Required, &with, Some("trunk.example.net")),
        (ClientCertificates::Optional, &with, Some("trunk.example.net")),
        (ClientCertificates::Optional, &without, None),
        (ClientCertificates::None, &with, None),
    ] {
        let server_tls = ServerTls::new(&folder.own("server"), Some(&folder.ca()), clients).unwrap();
        let (opened, accepted) = pair().await;
        let client = Wire::opened(opened, client_tls, "sip.example.com").unwrap();
        let server = Wire::accepted(accepted, &server_tls).unwrap();
        exchange(&client, &server, 100).await.unwrap();
        let found = server.peer_certificate().map(|certificate| domains(&certificate).remove(0));
        assert_eq!(found.as_deref(), proved);
    }
    let must =
        ServerTls::new(&folder.own("server"), Some(&folder.ca()), ClientCertificates::Required).unwrap();
    let (opened, accepted) = pair().await;
    let client = Wire::opened(opened, &without, "sip.example.com").unwrap();
    let server = Wire::accepted(accepted, &must).unwrap();
    exchange(&client, &server, 100).await.unwrap_err();
}

#[test]
fn what_is_wrong_with_a_file_is_told() {
    let folder = Folder::new("files", &[("server", "a.example"), ("other", "b.example")]);
    let mixed = OwnFiles { key: folder.own("other").key, ..folder.own("server") };
    let missing = OwnFiles { certificate: "/nowhere.pem".into(), ..mixed.clone() };
    let swapped = OwnFiles { certificate: mixed.key.clone(), key: mixed.key.clone() };
    for (own, says) in [(&mixed, "server.pem"), (&missing, "/nowhere.pem"), (&swapped, "no PEM certificate")]
    {
        let error = ServerTls::new(own, None, ClientCertificates::None).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let error = ClientTls::new(&folder.own("server").key, None).unwrap_err().to_string();
    assert!(error.contains("no PEM certificate"), "{error}");
}

#[tokio::test(flavor = "current_thread")]
async fn database_modes_verify_chain_and_host() {
    let folder = Folder::new("database", &[("server", "db.example.com")]);
    let stranger = Folder::new("database-stranger", &[]);
    let server_tls = ServerTls::new(&folder.own("server"), None, ClientCertificates::None).unwrap();
    let (ca, other_ca) = (Pem::read(&folder.ca()).unwrap(), Pem::read(&stranger.ca()).unwrap());
    for (verify, host, is_accepted) in [
        (Verify::Nothing, "other.example.com", true),
        (Verify::Authority(ca.clone()), "other.example.com", true),
        (Verify::Authority(other_ca.clone()), "db.example.com", false),
        (Verify::Host(ca.clone()), "db.example.com", true),
        (Verify::Host(ca), "other.example.com", false),
        (Verify::Host(other_ca), "db.example.com", false),
    ] {
        let (opened, accepted) = pair().await;
        let server = Wire::accepted(accepted, &server_tls).unwrap();
        let client_tls = DatabaseTls::new(&verify).unwrap();
        let (client, _) = tokio::join!(client_tls.connect(host, opened), server.handshake());
        assert_eq!(client.is_ok(), is_accepted, "{verify:?} {host}");
    }
}
