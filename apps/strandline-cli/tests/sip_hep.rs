//! Tests of copies of messages for a collector (HEP version 3), as sngrep decodes them.
#![allow(clippy::disallowed_methods, reason = "what is tested works in real time")]

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::sip_server::{Server, again};
use crate::waiting::found_at_last;

const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// A folder, which is removed when this value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("strandline-sip-hep-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn config(&self, text: &str) -> PathBuf {
        let path = self.0.join("sip.toml");
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A collector that writes the decoded messages into a capture file.
struct Collector {
    child: Child,
    capture: PathBuf,
}

impl Collector {
    fn start(folder: &Path, at: SocketAddr, password: &str) -> Self {
        let (settings, capture) = (folder.join("sngreprc"), folder.join("seen.pcap"));
        std::fs::write(&settings, format!("set eep.listen.pass {password}\n")).unwrap();
        let mut command = Command::new("sngrep");
        command.args(["-N", "-q", "-F", "-f"]).arg(&settings).arg("-L").arg(format!("udp:{at}"));
        command.arg("-O").arg(&capture).env("TERM", "dumb").stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| match error.kind() {
            ErrorKind::NotFound => panic!("sngrep is missing: apt-get install sngrep"),
            _ => panic!("sngrep: {error}"),
        });
        Self { child, capture }
    }

    /// Returns addresses, protocols and first lines of the captured messages, and credentials.
    fn seen(&self) -> Vec<String> {
        let fields = "ip.src udp.srcport ip.dst udp.dstport sip.Method sip.Status-Code sip.Authorization frame.time_epoch";
        let mut command = Command::new("tshark");
        command.arg("-r").arg(&self.capture).args([
            "-T",
            "fields",
            "-E",
            "separator= ",
            "-d",
            "udp.port==0-65535,sip",
        ]);
        fields.split(' ').for_each(|field| {
            command.args(["-e", field]);
        });
        let output = command.stderr(Stdio::null()).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn phone() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    socket
}

/// Registers and returns the response.
fn register(socket: &UdpSocket, server: &Server, number: u32) -> String {
    let at = socket.local_addr().unwrap();
    let text = format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bK{number};rport\r\n\
         From: <sip:bob@example.com>;tag=1\r\nTo: <sip:bob@example.com>\r\nCall-ID: call{number}\r\n\
         CSeq: {number} REGISTER\r\nContact: <sip:bob@{at}>\r\nAuthorization: Digest username=\"bob\"\r\n\
         Content-Length: 0\r\n\r\n"
    );
    socket.send_to(text.as_bytes(), server.address("udp")).unwrap();
    let mut room = [0; 4096];
    let len = again(|| socket.recv(&mut room)).unwrap();
    String::from_utf8(room[..len].to_vec()).unwrap()
}

#[test]
fn collector_sees_messages_as_received_and_sent() {
    for (blank, credentials) in [("", "******"), ("blank_credentials = false\n", "Digest")] {
        let folder = Folder::new(&format!("seen{}", blank.len()));
        let at = SocketAddr::from(([127, 0, 0, 1], crate::ports::free_port()));
        let collector = Collector::start(&folder.0, at, "secret");
        let config = folder.config(&format!(
            "[hep]\ncollector = \"{at}\"\ncapture_id = 2001\npassword = \"secret\"\n{blank}"
        ));
        let server = Server::start(&["--metrics", "127.0.0.1:0", "--config", config.to_str().unwrap()]);
        let socket = phone();
        let mut number = 0;
        // The collector takes some time to start.
        let seen = found_at_last("it is seen", || {
            number += 1;
            assert!(register(&socket, &server, number).starts_with("SIP/2.0 200"));
            let seen = collector.seen();
            if seen.iter().any(|line| line.contains(" 200 ")) { Ok(seen) } else { Err(format!("{seen:?}")) }
        });
        let (client, listening) = (socket.local_addr().unwrap(), server.address("udp"));
        let words = |at: SocketAddr| format!("{} {}", at.ip(), at.port());
        let request = format!("{} {} REGISTER  {credentials}", words(client), words(listening));
        let answer = format!("{} {}  200 ", words(listening), words(client));
        assert!(seen.iter().any(|line| line.starts_with(&request)), "{request}: {seen:#?}");
        assert!(seen.iter().any(|line| line.starts_with(&answer)), "{answer}: {seen:#?}");
        // The timestamps are current.
        let at = seen[0].rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((now - at).abs() < 300.0, "{at} {now}");
        let page = server.metrics("/metrics");
        assert!(page.contains("strandline_sip_hep_sent_total "), "{page}");
        drop(collector);
    }
}

#[test]
fn collector_over_tcp_may_come_and_go() {
    let folder = Folder::new("tcp");
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = collector.local_addr().unwrap();
    let config = folder.config(&format!("[hep]\ncollector = \"{at}\"\ntransport = \"tcp\"\n"));
    let server = Server::start(&["--metrics", "127.0.0.1:0", "--config", config.to_str().unwrap()]);
    let socket = phone();
    collector.set_nonblocking(true).unwrap();
    let mut number = 0;
    for _ in 0..2 {
        // A closed connection is detected by the next write.
        let (mut stream, _) = found_at_last("it connects", || {
            number += 1;
            register(&socket, &server, number);
            collector.accept().map_err(|error| error.to_string())
        });
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        for _ in 0..2 {
            let mut head = [0; 6];
            stream.read_exact(&mut head).unwrap();
            assert_eq!(&head[..4], b"HEP3");
            let mut rest = vec![0; usize::from(u16::from_be_bytes([head[4], head[5]])) - 6];
            stream.read_exact(&mut rest).unwrap();
            assert!(rest.ends_with(b"\r\n\r\n"), "{}", String::from_utf8_lossy(&rest));
            register(&socket, &server, {
                number += 1;
                number
            });
        }
    }
}

#[test]
fn what_is_wrong_with_the_table_is_told() {
    let fine = "[hep]\ncollector = \"192.0.2.1:9060\"\n";
    for (text, says) in [
        (fine.to_owned(), ""),
        (format!("{fine}transport = \"tls\"\n"), "hep.transport: unknown transport \"tls\""),
        (format!("{fine}sample = 2.0\n"), "hep.sample: 2 is not between 0 and 1"),
        (
            format!("{fine}password = \"a\"\npassword_file = \"/b\"\n"),
            "hep.password_file: use either hep.password or hep.password_file",
        ),
        (
            "[hep]\ncollector = \"0.0.0.0:9060\"\n".to_owned(),
            "hep.collector: 0.0.0.0:9060 is not the address and port of a host",
        ),
        ("[hep]\n".to_owned(), "missing field `collector`"),
    ] {
        crate::checked::says(&text, says);
    }
}
