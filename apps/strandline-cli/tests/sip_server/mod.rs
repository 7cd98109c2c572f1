//! A SIP server on free ports.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use serde_json::Value;

use super::announced::announced;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");

/// A server, which ends when this value is dropped.
pub struct Server {
    child: Child,
    listening: Value,
}

impl Server {
    /// Starts a server on UDP and TCP for example.com.
    pub fn start(arguments: &[&str]) -> Self {
        let mut server = Command::new(PROGRAM);
        server
            .args(["sip", "--json", "--domain", "example.com"])
            .args(["--listen", "udp:127.0.0.1:0", "--listen", "tcp:127.0.0.1:0"])
            .args(arguments);
        Self::announced(&mut server)
    }

    /// Starts a server with this command.
    pub fn announced(server: &mut Command) -> Self {
        let (child, listening) = announced(server);
        Self { child, listening }
    }

    /// Starts a server with a configuration file.
    pub fn configured(config: &Path) -> Self {
        Self::announced(Command::new(PROGRAM).args(["sip", "--json", "--config"]).arg(config))
    }

    fn entry(&self, protocol: &str) -> &Value {
        let all = self.listening["listening"].as_array().unwrap();
        all.iter().find(|one| one["protocol"] == protocol).unwrap()
    }

    pub fn address(&self, protocol: &str) -> SocketAddr {
        SocketAddr::new(self.entry(protocol)["host"].as_str().unwrap().parse().unwrap(), self.port(protocol))
    }

    pub fn port(&self, protocol: &str) -> u16 {
        self.entry(protocol)["port"].as_u64().unwrap().try_into().unwrap()
    }

    /// Returns the UDP port that carries SCTP.
    pub fn carrier(&self) -> u16 {
        self.entry("sctp")["carrier"].as_u64().unwrap().try_into().unwrap()
    }

    /// Returns the response of the metrics listener for a path.
    pub fn metrics(&self, path: &str) -> String {
        self.metrics_by("GET", path)
    }

    pub fn metrics_by(&self, method: &str, path: &str) -> String {
        let address = self.listening["metrics"].as_str().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        page
    }

    /// Returns the address of the admin interface.
    pub fn admin(&self) -> &str {
        self.listening["admin"].as_str().unwrap()
    }

    pub fn hang_up(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    }

    pub fn metrics_address(&self) -> &str {
        self.listening["metrics"].as_str().unwrap()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.listening["metrics"].as_str().unwrap())
    }

    /// Returns the server's process.
    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    pub fn users(&self) -> u64 {
        self.listening["users"].as_u64().unwrap()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn terminate(&mut self) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap()
    }
}

/// Repeats a read that a signal interrupted: stopping and continuing a process interrupts its waits with
/// time-outs.
pub fn again<T>(mut read: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    loop {
        match read() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
