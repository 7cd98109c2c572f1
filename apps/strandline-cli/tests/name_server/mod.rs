//! A DNS server (dnsmasq, from Debian) with a test's records.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::waiting::found_at_last;

const PROGRAM: &str = "/usr/sbin/dnsmasq";

pub struct NameServer {
    child: Child,
    pub address: SocketAddr,
    log: PathBuf,
}

impl NameServer {
    /// Starts a server that is authoritative for `example` and knows nothing else. Each of `records` is an
    /// option of dnsmasq without its dashes.
    pub fn start(test: &str, records: &[String]) -> Self {
        let log = std::env::temp_dir().join(format!("strandline-dns-{test}-{}.log", std::process::id()));
        // Another process may take the port in between: try another port then.
        for _ in 0..10 {
            let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let address = udp.local_addr().unwrap();
            if TcpListener::bind(address).is_err() {
                continue;
            }
            drop(udp);
            let _ = std::fs::remove_file(&log);
            let mut command = Command::new(PROGRAM);
            command
                .args([
                    "--keep-in-foreground",
                    "--conf-file=/dev/null",
                    "--no-resolv",
                    "--no-hosts",
                    "--no-poll",
                ])
                .args([
                    "--pid-file=",
                    "--user=",
                    "--group=",
                    "--bind-interfaces",
                    "--listen-address=127.0.0.1",
                ])
                .args(["--local=/example/", "--log-queries", "--cache-size=0"])
                .arg(format!("--port={}", address.port()))
                .arg(format!("--log-facility={}", log.display()))
                .args(records.iter().map(|record| format!("--{record}")))
                .stdin(Stdio::null())
                .stderr(Stdio::null());
            let child = command.spawn().unwrap_or_else(|error| match error.kind() {
                ErrorKind::NotFound => panic!("{PROGRAM} is missing: apt-get install dnsmasq-base"),
                _ => panic!("{PROGRAM}: {error}"),
            });
            let mut server = Self { child, address, log: log.clone() };
            if server.answers() {
                return server;
            }
        }
        panic!("dnsmasq doesn't start");
    }

    /// Waits until the server answers. Returns false if it has ended.
    fn answers(&mut self) -> bool {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        // A query for the address of `example`.
        let question = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x00\x00\x01\x00\x01";
        found_at_last("dnsmasq answers", || {
            // Refused while the server isn't listening.
            let _ = socket.send_to(question, self.address);
            let ended = || self.child.try_wait().unwrap().map(|_| false);
            let answered = socket.recv(&mut [0; 512]).is_ok().then_some(true);
            answered.or_else(ended).ok_or_else(String::new)
        })
    }

    /// Returns how often the server received this query.
    pub fn asked(&self, kind: &str, name: &str) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap();
        log.matches(&format!("query[{kind}] {name} ")).count()
    }

    /// Returns the table `[dns]` of a SIP server that uses this server.
    pub fn config(&self) -> String {
        format!("[dns]\nservers = [\"{}\"]\nhosts = false\n", self.address)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

/// Returns an SRV record for a service, such as `_sip._udp`, at a port of this machine.
pub fn srv(service: &str, port: u16, priority: u16) -> String {
    format!("srv-host={service}.other.example,host.other.example,{port},{priority},10")
}

/// Returns the address record of all hosts.
pub fn host() -> String {
    "host-record=host.other.example,127.0.0.1".to_owned()
}

pub fn naptr(order: u16, service: &str, replacement: &str) -> String {
    format!("naptr-record=other.example,{order},10,s,{service},,{replacement}.other.example")
}
