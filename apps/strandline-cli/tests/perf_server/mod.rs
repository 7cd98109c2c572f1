//! A server of `strandline perf` as a process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");

/// A server on free ports, which ends when this value is dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) port: String,
    pub(crate) encapsulation: String,
}

impl Server {
    /// Starts a server with further arguments, and reads from its first message where it listens.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args("perf server --bind 127.0.0.1 -p 0 --encapsulation-port 0 --quiet".split(' '));
        let child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        // "strandline perf serves SCTP port 4242 in UDP 127.0.0.1:9899, TCP 127.0.0.1:4242"
        let mut line = String::new();
        let mut messages = BufReader::new(child.stderr.take().unwrap());
        messages.read_line(&mut line).unwrap();
        // The server's further messages must be read, or it would block.
        std::thread::spawn(move || std::io::copy(&mut messages, &mut std::io::sink()));
        let after = |before: &str| {
            let rest = line.split(before).nth(1).unwrap();
            rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().to_owned()
        };
        Self { port: after("SCTP port "), encapsulation: after("UDP 127.0.0.1:"), child }
    }

    /// Returns a client of this server, which has not been started.
    pub(crate) fn client(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(["perf", "client", "127.0.0.1", "-p", &self.port])
            .args(["--encapsulation-port", &self.encapsulation])
            .args(arguments);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
