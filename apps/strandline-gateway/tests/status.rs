//! `strandline gateway status` on a terminal.

use std::io::Read;
use std::process::{Command, Stdio};

use crate::common::{PROGRAM, World};

#[test]
fn each_table_replaces_the_one_before() {
    let world = World::new();
    let admin = world.near.announced["admin"].as_str().unwrap();
    let command = format!("exec {PROGRAM} status --admin {admin}");
    // script(1) provides the terminal.
    let mut terminal = Command::new("script")
        .args(["--quiet", "--flush", "--command", &command, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script runs: install bsdutils");
    let mut output = terminal.stdout.take().unwrap();
    let (mut shown, mut room) = (String::new(), [0; 4096]);
    while shown.matches("associations, 0 connections\r\n").count() < 2 {
        let len = output.read(&mut room).unwrap();
        assert!(len > 0, "it ended: {shown}");
        shown.push_str(&String::from_utf8_lossy(&room[..len]));
    }
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    // Each begins at the top left of a cleared screen.
    let tables: Vec<&str> = shown.split("\x1b[H\x1b[J").collect();
    let [before, first, second] = tables[..] else { panic!("{shown:?}") };
    assert_eq!(before, "");
    for table in [first, second] {
        assert!(table.starts_with("peer far  ") && table.ends_with(" 0 connections\r\n"), "{shown:?}");
        assert!(!table.contains("u001b"), "{shown:?}");
    }
}
