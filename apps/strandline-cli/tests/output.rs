//! Tests with unwritable output: a full disk, or a closed pipe.

use std::fs::{File, OpenOptions};
use std::process::{Command, Output, Stdio};

const EXPERIMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");

/// Commands that print a result and end.
const PRINTING: [&[&str]; 4] = [
    &["completions", "bash"],
    &["lab", "list", "--experiments", EXPERIMENTS, "jani-kant-2005"],
    &["--help"],
    &["--version"],
];

/// Opens a device without free space.
fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

/// Returns a pipe whose reader is closed.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn run(arguments: &[&str], out: impl Into<Stdio>, err: impl Into<Stdio>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strandline"));
    command.args(arguments).stdin(Stdio::null()).stdout(out).stderr(err).output().unwrap()
}

fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn result_without_disk_space_is_an_error() {
    for arguments in PRINTING {
        let output = run(arguments, full(), Stdio::piped());
        let (code, told) = said(&output);
        assert_eq!(code, Some(1), "{arguments:?}: {told}");
        assert!(
            told.starts_with("strandline: writing to standard output: No space left"),
            "{arguments:?}: {told}"
        );
        assert_eq!(run(arguments, full(), full()).status.code(), Some(1), "{arguments:?}");
    }
}

#[test]
fn result_without_a_reader_ends_quietly() {
    for arguments in PRINTING {
        let output = run(arguments, unread(), Stdio::piped());
        assert_eq!(said(&output), (Some(141), String::new()), "{arguments:?}");
    }
}

#[test]
fn diagnostics_may_be_lost_without_failure() {
    for arguments in PRINTING {
        assert_eq!(run(arguments, Stdio::piped(), full()).status.code(), Some(0), "{arguments:?}");
    }
    // Errors keep their exit codes; log lines that can't be written are lost.
    let missing = ["perf", "client", "::1", "--bind"];
    assert_eq!(run(&missing, Stdio::piped(), full()).status.code(), Some(2));
    let trace = ["-vv", "lab", "trace", "/nowhere/run.jsonl"];
    assert_eq!(run(&trace, Stdio::piped(), full()).status.code(), Some(1));
}
