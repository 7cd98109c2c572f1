//! Programs on other SCTP stacks. Each prints a line for each event and reads commands from its standard
//! input; tests/interop/peer.c describes both.

use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::driver::TIMEOUT;

/// A running peer. If dropped, it ends without notifying its own peer.
#[derive(Debug)]
pub struct PeerProcess {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    seen: Vec<String>,
    /// False if the last packets of an association with messages given up must not be lost, because this stack
    /// would not repeat them.
    pub ends_under_losses: bool,
}

impl PeerProcess {
    /// Starts the peer on usrsctp.
    ///
    /// # Panics
    /// If the program doesn't exist: `make test-deps` builds it.
    #[must_use]
    pub fn usrsctp(arguments: &str) -> Self {
        let mut peer = Self::start(&built("usrsctp-peer", "make test-deps"), arguments);
        // A FORWARD TSN up to a chunk that was never sent has no timer.
        peer.ends_under_losses = false;
        peer
    }

    /// Starts the peer on usrsctp, on a separate host that tests/interop/run-all created: `10.132.1.2` and
    /// `10.132.2.2`.
    ///
    /// # Panics
    /// If the host doesn't exist: `make interop` creates it.
    #[must_use]
    pub fn usrsctp_on_a_host_of_its_own(arguments: &str) -> Self {
        let program = built("usrsctp-peer", "make test-deps");
        let host = std::env::var("PEER_NS").expect("run `make interop`: it makes the peer's host");
        Self::start(&PathBuf::from("ip"), &format!("netns exec {host} {} {arguments}", program.display()))
    }

    /// Starts the peer on pion/sctp.
    ///
    /// # Panics
    /// If the program doesn't exist: `make test-deps` builds it.
    #[must_use]
    pub fn pion(arguments: &str) -> Self {
        let mut peer = Self::start(&built("pion-peer", "make test-deps"), arguments);
        // Nothing answers for an association that has ended: the SHUTDOWN COMPLETE comes once.
        peer.ends_under_losses = false;
        peer
    }

    /// Starts the peer on the Linux kernel's SCTP, in the instance `A` that tests/interop/run-all started.
    ///
    /// # Panics
    /// If the instance doesn't run: `make interop` starts it.
    #[must_use]
    pub fn lksctp(arguments: &str) -> Self {
        built("lksctp/bin/peer", "make interop");
        // An earlier test that failed may have left the path cut.
        lksctp_control("heal 1");
        lksctp_control("heal 2");
        Self::start(&lksctp_script(), &format!("run A peer {arguments}"))
    }

    fn start(program: &PathBuf, arguments: &str) -> Self {
        let mut child = Command::new(program)
            .args(arguments.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let output = child.stdout.take().expect("its output is piped");
        let input = child.stdin.take();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let name = format!("{} {arguments}", program.display());
        let mut peer = Self { name, child, input, lines, seen: Vec::new(), ends_under_losses: true };
        peer.expect("READY");
        peer
    }

    /// Sends the peer a command: `abort`, `shutdown` or `quit`.
    pub fn tell(&mut self, command: &str) {
        let input = self.input.as_mut().expect("it takes commands until it is dropped");
        writeln!(input, "{command}").and_then(|()| input.flush()).expect("it takes commands");
    }

    /// Waits for a line with this prefix, and returns it. `BAD` lines and the end of the program fail the
    /// test.
    pub fn expect(&mut self, start: &str) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    assert!(!line.starts_with("BAD"), "{}: {line}", self.name);
                    self.seen.push(line.clone());
                    if line.starts_with(start) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{}: waited for {start}, after {:?}", self.name, self.seen)
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("{} ended; waited for {start}, after {:?}", self.name, self.seen)
                }
            }
        }
    }

    /// Returns everything that the peer has printed so far; a `BAD` line among it fails the test.
    pub fn seen(&mut self) -> &[String] {
        self.seen.extend(self.lines.try_iter());
        let bad = self.seen.iter().find(|line| line.starts_with("BAD"));
        assert_eq!(bad, None, "{}", self.name);
        &self.seen
    }

    /// Returns false if the peer's last report about its path to this address is a failure, otherwise true.
    pub fn reaches(&mut self, address: &str) -> bool {
        let start = format!("PATH {address} ");
        let last = self.seen().iter().rev().find(|line| line.starts_with(&start));
        last.is_none_or(|line| !line.ends_with("state=2"))
    }

    /// Makes the peer end at once, without notifying the other side.
    pub fn vanish(mut self) {
        self.tell("quit");
        let status = self.child.wait();
        assert!(status.is_ok(), "{}: {status:?}", self.name);
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.seen.extend(self.lines.try_iter());
            eprintln!("{} printed {:?}", self.name, self.seen);
        }
        // Without input the peer ends by itself, and so does a script around it.
        drop(self.input.take());
        let deadline = Instant::now() + Duration::from_secs(2);
        let left = || deadline.saturating_duration_since(Instant::now());
        loop {
            match self.lines.recv_timeout(left()) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.child.kill();
                    break;
                }
            }
        }
        let _ = self.child.wait();
    }
}

/// Returns a UDP port of 127.0.0.1 that is free at present, and different in each call in a process. It is below the
/// kernel's ephemeral ports (from 32,768): otherwise a socket of another test may take it before the peer binds.
///
/// # Panics
/// If all of this process' ports are taken.
#[must_use]
pub fn free_udp_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 20_000 + (std::process::id() % 100) as u16 * 100;
    let mut ports = (0..100).map(|_| start + NEXT.fetch_add(1, Ordering::Relaxed) % 100);
    ports.find(|&port| UdpSocket::bind(("127.0.0.1", port)).is_ok()).expect("a free UDP port")
}

/// Cuts, restores and slows down the paths of the kernel's instance `A`: `cut 1`, `heal 1`, `netem 1 loss
/// 2%`.
///
/// # Panics
/// If the script fails.
pub fn lksctp_control(command: &str) {
    let (verb, rest) = command.split_once(' ').expect("a command and its path");
    let mut arguments = vec![verb, "A"];
    arguments.extend(rest.split_whitespace());
    let status = Command::new(lksctp_script()).args(&arguments).stdin(Stdio::null()).status();
    assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "lksctp {arguments:?}: {status:?}");
}

fn lksctp_script() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "interop", "lksctp", "lksctp"].iter().collect()
}

/// Returns a program that tests/interop/setup builds.
fn built(name: &str, command: &str) -> PathBuf {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "target", "interop", name].iter().collect();
    assert!(path.exists(), "{name} is not there; `{command}` (as root) installs what it needs and builds it");
    path
}
