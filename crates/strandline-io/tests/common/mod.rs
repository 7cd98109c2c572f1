//! Shared parts of this crate's tests: waiting for a socket, and separate network namespaces.
#![allow(dead_code, unreachable_pub, unsafe_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use strandline_io::{Carrier, IcmpKind, RecvBatch};

/// Maximum time in milliseconds that a test waits for something that must arrive.
pub const TIMEOUT_MS: i32 = 60_000;

/// Waits until the descriptor is readable (or has a pending error). Returns false after the timeout.
pub fn wait_readable(fd: &impl AsFd, timeout_ms: i32) -> bool {
    wait(fd, libc::POLLIN, timeout_ms)
}

/// Waits for the given poll events; errors count as well.
pub fn wait(fd: &impl AsFd, events: i16, timeout_ms: i32) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_fd().as_raw_fd(), events, revents: 0 };
    // SAFETY: one pollfd, which lives during the call.
    let ready = unsafe { libc::poll(&raw mut poll, 1, timeout_ms) };
    assert!(ready >= 0, "poll: {}", std::io::Error::last_os_error());
    ready == 1
}

/// Receives until `count` packets have arrived, and returns each with its metadata.
pub fn receive(carrier: &dyn Carrier, count: usize) -> Vec<(strandline_io::Received, Vec<u8>)> {
    let mut batch = RecvBatch::new(8);
    let mut packets = Vec::new();
    while packets.len() < count {
        assert!(wait_readable(&carrier, TIMEOUT_MS), "{} of {count} packets came", packets.len());
        match carrier.recv(&mut batch) {
            Ok(_) => packets.extend(batch.packets().map(|(meta, packet)| (*meta, packet.to_vec()))),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}"),
        }
    }
    packets
}

/// Asserts that nothing arrives although everything sent before has been delivered. Loopback and veth deliver
/// within the sending call, or on this CPU's next softirq, long before the time here is over.
pub fn assert_silent(carrier: &dyn Carrier) {
    let mut batch = RecvBatch::new(1);
    if wait_readable(&carrier, 100) && carrier.recv(&mut batch).is_ok() {
        panic!("arrived unexpectedly: {:?}", batch.packets().collect::<Vec<_>>());
    }
}

/// Waits for a report for which `wanted` is true, and returns its destination, kind and quoted bytes.
pub fn wait_report(
    carrier: &dyn Carrier,
    mut wanted: impl FnMut(IcmpKind) -> bool,
) -> (std::net::SocketAddr, IcmpKind, Vec<u8>) {
    for _ in 0..20 {
        let mut found = None;
        carrier.poll_errors(&mut |report| {
            if wanted(report.kind) && found.is_none() {
                found = Some((report.destination, report.kind, report.quoted.to_vec()));
            }
        });
        if let Some(found) = found {
            return found;
        }
        wait(&carrier, 0, TIMEOUT_MS / 20);
    }
    panic!("no report of the kind that was waited for");
}

/// Fails with an explanation unless the test runs as root.
pub fn require_root() {
    // SAFETY: takes nothing and can't fail.
    let uid = unsafe { libc::geteuid() };
    assert_eq!(uid, 0, "this test makes network namespaces and raw sockets: run it as root (see README.md)");
}

/// Runs a command, and fails with its output unless it succeeds.
pub fn run(command: &str) {
    let mut words = command.split_whitespace();
    let program = words.next().expect("a program");
    let output =
        Command::new(program).args(words).output().unwrap_or_else(|error| panic!("{command}: {error}"));
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A network namespace that exists as long as this value. Its loopback interface is up.
pub struct Namespace {
    pub name: String,
}

impl Namespace {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        require_root();
        let name = format!("slio-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        run(&format!("ip netns add {name}"));
        let namespace = Self { name };
        // A router asks for its neighbours from its link-local address, which else it has only after up to two seconds:
        // when it has asked three times in vain.
        namespace.exec("sysctl -qw net.ipv6.conf.default.accept_dad=0");
        namespace.ip("link set lo up");
        namespace
    }

    /// Returns two namespaces joined by a veth pair: interface `v0` with 10.77.0.1/24 and fd77::1/64 in the
    /// first, 10.77.0.2 and fd77::2 in the second.
    pub fn pair() -> (Self, Self) {
        let (left, right) = (Self::new(), Self::new());
        run(&format!("ip link add v0 netns {} type veth peer name v0 netns {}", left.name, right.name));
        for (namespace, host) in [(&left, 1), (&right, 2)] {
            namespace.ip(&format!("addr add 10.77.0.{host}/24 dev v0"));
            namespace.ip(&format!("addr add fd77::{host}/64 dev v0 nodad"));
            namespace.ip("link set v0 up");
        }
        (left, right)
    }

    /// Returns a pair, of which the second is a router to a third: behind its `v1`, which passes packets of
    /// at most 1,300 bytes, are 10.78.0.2 and fd78::2.
    pub fn around_a_router() -> (Self, Self, Self) {
        let (left, router) = Self::pair();
        let right = Self::new();
        router.exec("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        run(&format!("ip link add v1 netns {} type veth peer name v1 netns {}", router.name, right.name));
        for (namespace, host) in [(&router, 1), (&right, 2)] {
            namespace.ip(&format!("addr add 10.78.0.{host}/24 dev v1"));
            namespace.ip(&format!("addr add fd78::{host}/64 dev v1 nodad"));
            namespace.ip("link set v1 mtu 1300 up");
        }
        left.ip("route add default via 10.77.0.2");
        left.ip("-6 route add default via fd77::2");
        right.ip("route add default via 10.78.0.1");
        right.ip("-6 route add default via fd78::1");
        (left, router, right)
    }

    /// Runs `ip` within the namespace.
    pub fn ip(&self, arguments: &str) {
        run(&format!("ip -n {} {arguments}", self.name));
    }

    /// Runs `command` within the namespace.
    pub fn exec(&self, command: &str) {
        run(&format!("ip netns exec {} {command}", self.name));
    }

    /// Runs a closure on a thread that has entered the namespace. Sockets that it opens stay in the
    /// namespace.
    pub fn enter<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/var/run/netns/{}", self.name)).expect("the namespace");
        let outcome = thread::scope(|scope| {
            scope
                .spawn(|| {
                    // SAFETY: the descriptor is a namespace's; only this thread enters it.
                    let result = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
                    assert_eq!(result, 0, "setns: {}", std::io::Error::last_os_error());
                    inside()
                })
                .join()
        });
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Not `run`: a panic here while a test fails would hide the cause of the failure.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}
