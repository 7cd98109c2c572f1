use std::fs;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};

use super::{AccessLog, LINES_MAX};
use crate::clock::now;
use crate::refused_lines::Source;

/// Time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(60);

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("strandline-gateway-{name}-{}", std::process::id()))
}

fn refuse(log: &AccessLog) {
    for _ in 0..200 {
        log.write_refused(("limit", Source::Peer("far".into())), || json!({}));
    }
}

/// Waits for another thread.
fn at_last(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = now() + PATIENCE;
    while !is_so() {
        assert!(now() < end, "never: {what}");
        std::thread::yield_now();
    }
}

/// What the whole lines of a log stand for.
fn sum(text: &str) -> u64 {
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let lines = whole.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.map(|line| 1 + line["more"].as_u64().unwrap_or(0)).sum()
}

#[test]
fn lines_go_to_the_file_opened_last() {
    let path = path("log");
    let renamed = path.with_extension("1");
    let log = AccessLog::open(&path).unwrap();
    log.write("one".to_owned());
    fs::rename(&path, &renamed).unwrap();
    log.reopen();
    log.write("two".to_owned());
    drop(log);
    assert_eq!(fs::read_to_string(&renamed).unwrap(), "one\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    fs::remove_file(path).unwrap();
    fs::remove_file(renamed).unwrap();
}

/// The sums of refused connections are written without another connection, and at the end.
#[test]
fn sums_of_refused_connections_are_written() {
    let path = path("refused");
    let log = AccessLog::open(&path).unwrap();
    let read = || fs::read_to_string(&path).unwrap();
    refuse(&log);
    at_last("all are summed up", || sum(&read()) == 200);
    refuse(&log);
    drop(log);
    assert_eq!(sum(&read()), 400);
    let lines = read().lines().count();
    assert!(lines < 100, "{lines}");
    fs::remove_file(path).unwrap();
}

/// Connections that are refused while the queue is full are summed up without a further one, once there is room.
#[test]
fn sums_outlast_a_full_queue() {
    let path = path("fifo");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    let log = AccessLog::open(&path).unwrap();
    let mut reader = fs::File::from(reader);
    // The thread waits for the reader, and the queue is full.
    let filler = "x".repeat(100);
    for _ in 0..=2 * LINES_MAX {
        log.write(filler.clone());
    }
    let lost = log.lost();
    assert!(lost > 0);
    refuse(&log);
    let (mut text, mut room) = (String::new(), [0; 65_536]);
    at_last("each is summed up, or was lost at once", || {
        match reader.read(&mut room) {
            Ok(len) => text += str::from_utf8(&room[..len]).unwrap(),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        sum(&text) + log.lost() - lost == 200
    });
    drop(log);
    fs::remove_file(path).unwrap();
}

/// A sum that is lost counts as all of its connections.
#[test]
fn lost_sums_count_as_what_they_stand_for() {
    let log = AccessLog::open("/dev/full".as_ref()).unwrap();
    refuse(&log);
    at_last("all lines are lost", || log.lost() == 200);
}
