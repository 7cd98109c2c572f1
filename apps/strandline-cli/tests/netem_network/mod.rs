//! A network created by `strandline netem up`, for tests.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use super::waiting::{at_last, found_at_last, stop};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");

/// Time limit of each operation.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

pub fn require_root() {
    let root = rustix::process::geteuid().is_root();
    assert!(root, "this test makes network namespaces and TUN devices: run it as root (see README.md)");
}

#[allow(clippy::disallowed_methods, reason = "what is tested works in real time")]
pub fn now() -> Instant {
    Instant::now()
}

#[derive(Debug, Clone, Copy)]
pub enum Side {
    Left,
    Right,
}

impl Side {
    pub const BOTH: [Self; 2] = [Self::Left, Self::Right];
}

/// A network that is removed when this value is dropped.
pub struct Network {
    name: String,
    child: Child,
}

impl Network {
    pub fn up(arguments: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        require_root();
        let name = format!("test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut child = Command::new(PROGRAM)
            .args(["netem", "up", "--name", &name, "--late-limit", "1min"])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains("is up"), "{line}");
        std::thread::spawn(move || lines.for_each(drop));
        Self { name, child }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn namespace(&self, side: Side) -> String {
        format!("strandline-{}-{}", self.name, format!("{side:?}").to_lowercase())
    }

    /// Returns a UDP socket on each side of a path, connected to each other.
    pub fn sockets(&self, path: u8) -> (UdpSocket, UdpSocket) {
        let socket = |side, host| {
            let file = File::open(format!("/run/netns/{}", self.namespace(side))).unwrap();
            let inside = move || {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                UdpSocket::bind(format!("10.0.{path}.{host}:9000")).unwrap()
            };
            std::thread::spawn(inside).join().unwrap()
        };
        let (left, right) = (socket(Side::Left, 1), socket(Side::Right, 2));
        for socket in [&left, &right] {
            // The kernel accounts some kilobytes for a datagram of a hundred bytes.
            set_socket_recv_buffer_size_force(socket, 4_000_000).unwrap();
        }
        left.connect(right.local_addr().unwrap()).unwrap();
        right.connect(left.local_addr().unwrap()).unwrap();
        (left, right)
    }

    /// Sends datagrams of `len` bytes that begin with these numbers.
    pub fn send(&self, from: &UdpSocket, numbers: Vec<u32>, len: usize) {
        for number in numbers {
            let mut datagram = vec![0; len];
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            from.send(&datagram).unwrap();
        }
    }

    /// Runs a command for this network and returns its output.
    pub fn command(&self, words: &[&str]) -> Value {
        let (command, rest) = words.split_first().unwrap();
        let output = Command::new(PROGRAM)
            .args(["netem", command, "--json", "--name", &self.name])
            .args(rest)
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Waits until the report fulfils a condition, and returns it.
    pub fn wait_for(&self, wished: impl Fn(&Value) -> bool) -> Value {
        found_at_last("it is as wished", || {
            let report = self.command(&["status"])[&self.name].take();
            if wished(&report) { Ok(report) } else { Err(report.to_string()) }
        })
    }

    pub fn down(mut self) -> Value {
        let report = self.command(&["down"]);
        assert!(self.child.wait().unwrap().success());
        report
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops the network's process until [`go_on`](Self::go_on).
    pub fn stop(&self) {
        assert!(stop(&self.child), "the emulator has ended");
    }

    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().unwrap();
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.signal(Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

/// Receives `count` datagrams and returns their numbers in order of arrival.
pub fn receive_all(socket: &UdpSocket, count: usize) -> Vec<u32> {
    socket.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    let receive = |_| {
        let mut buffer = [0; 2048];
        let len = socket.recv(&mut buffer).unwrap();
        assert!(len >= 4);
        u32::from_be_bytes(buffer[..4].try_into().unwrap())
    };
    (0..count).map(receive).collect()
}

/// Waits until a network answers.
pub fn wait_until_up(name: &str) {
    let status =
        || Command::new(PROGRAM).args(["netem", "status", "--json", "--name", name]).output().unwrap();
    at_last("the network is up", || status().status.success());
}

pub fn signal_and_wait(mut child: Child, signal: Signal) -> ExitStatus {
    kill_process(Pid::from_child(&child), signal).unwrap();
    child.wait().unwrap()
}
