//! All examples of the workspace run to their ends, with little to measure. `cargo test --workspace` builds them.

// A failed expectation ends the test with its reason.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Examples that run and end by themselves, with their arguments.
const ALONE: &[(&str, &str)] = &[
    ("addresses", ""),
    ("keys", ""),
    ("lifetimes", ""),
    ("multipath", ""),
    ("priorities", ""),
    ("streams", "short"),
    ("throughput", "8192 1"),
    ("completion", "--size 100000 --rtt 20 --rate 10 --seeds 1"),
    ("goodput", "--rtt 20 --rate 10 --seconds 1"),
    ("carrier_throughput", ""),
];

/// Examples with a server and a client: the arguments of both.
const PAIRS: &[(&str, &str, &str)] = &[
    ("beside", "serve", "call --to 127.0.0.1 --on stream --seconds 0.3"),
    ("transaction", "serve", "call --to 127.0.0.1 --seconds 0.3"),
];

/// Examples that other tests run, or that need more than a host offers.
const ELSEWHERE: &[(&str, &str)] = &[
    ("axum_router", "a test itself: test = true in Cargo.toml"),
    ("pooled_client", "a test itself"),
    ("tower_layers", "a test itself"),
    ("chat", "its own tests"),
    ("memory", "`memory_of_http_is_measured` here"),
    ("receive", "raw.rs of strandline-io"),
    ("raw_paths", "needs an interface for itself; run by hand"),
];

/// Returns an example's program: tests are in target/PROFILE/deps, examples in target/PROFILE/examples.
fn program(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().expect("the path of the test");
    path.pop();
    path.pop();
    path.push("examples");
    path.push(name);
    assert!(path.exists(), "{} is built by `cargo test --workspace`", path.display());
    path
}

fn command(name: &str, arguments: &str) -> Command {
    let mut command = Command::new(program(name));
    command.args(arguments.split_whitespace());
    command
}

/// A program that is killed at the end.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(name: &str, arguments: &str) {
    let output = command(name, arguments).stdin(Stdio::null()).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments} ends with {}:\n{text}{errors}", output.status);
}

#[test]
fn examples_that_need_nothing_run() {
    for (name, arguments) in ALONE {
        run(name, arguments);
    }
}

/// Takes some twenty seconds, beside the others.
#[test]
fn memory_of_http_is_measured() {
    run("memory", "");
}

/// How often a server that may still be starting is called. Before it listens, a call ends at once.
const CALLS_MAX: usize = 2000;

#[test]
fn examples_with_two_sides_run() {
    for (name, serve, call) in PAIRS {
        let _server = Server(command(name, serve).stdout(Stdio::null()).spawn().expect("it starts"));
        let answers = |_| {
            let mut call = command(name, call);
            call.stderr(Stdio::null()).stdout(Stdio::null()).status().expect("it starts").success()
        };
        assert!((0..CALLS_MAX).any(answers), "the server of {name} does not answer");
        run(name, call);
    }
}

#[test]
fn each_example_is_listed() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut found = BTreeSet::new();
    for folder in ["crates", "apps"] {
        for member in std::fs::read_dir(root.join(folder)).expect("the folder is there") {
            let Ok(examples) = std::fs::read_dir(member.expect("one of them").path().join("examples")) else {
                continue;
            };
            for example in examples {
                let path = example.expect("one of them").path();
                if path.extension().is_some_and(|extension| extension == "rs") {
                    found.insert(path.file_stem().unwrap().to_string_lossy().into_owned());
                }
            }
        }
    }
    let alone = ALONE.iter().map(|(name, _)| *name);
    let pairs = PAIRS.iter().map(|(name, ..)| *name);
    let elsewhere = ELSEWHERE.iter().map(|(name, _)| *name);
    let listed: BTreeSet<String> = alone.chain(pairs).chain(elsewhere).map(str::to_owned).collect();
    assert_eq!(found, listed);
}
