//! Log lines about what is refused before it is parsed.

use std::io;
use std::sync::{Arc, Mutex};

use super::*;

#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns what is logged meanwhile, from the message on.
fn logged(run: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, run);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    text.lines().map(|line| line.split_once("strandline_sip::refused: ").unwrap().1.to_owned()).collect()
}

fn line(reason: &str, left_out: u32) -> String {
    format!("refused source=127.0.0.1 user= reason=\"{reason}\" left_out={left_out}")
}

#[test]
fn overload_is_logged_once_a_second() {
    let mut inbox = inbox();
    let lines = logged(|| {
        push(&mut inbox, at(0), &["INVITE"; 101]);
        assert!(inbox.next(at(101)).is_none());
        push(&mut inbox, at(1000), &["INVITE"]);
        assert!(inbox.next(at(1101)).is_none());
    });
    assert_eq!(inbox.counters.late.iter().sum::<u64>(), 102);
    assert_eq!(lines, [line("overload", 0), line("overload", 100)]);
}

#[test]
fn each_reason_has_a_line_of_its_own() {
    let mut inbox = Inbox::new(InboxSettings::default(), Some(Sources::new(10, [7; 16])), [3; 16]);
    let lines = logged(|| {
        push(&mut inbox, at(0), &["INVITE"; 30]);
        let long = Bytes::from(format!("INVITE sip:a SIP/2.0\r\n\r\n{}", "x".repeat(64 << 20)));
        add(&mut inbox, at(0), flow(5060), long, false);
        inbox.set_access(Access { allow: Vec::new(), deny: vec![([127, 0, 0, 0].into(), 8)] });
        push(&mut inbox, at(0), &["INVITE"; 2]);
        assert!(!inbox.admits(at(0), flow(5060).peer.ip()));
    });
    assert_eq!(inbox.counters.denied, 3);
    assert_eq!(lines, [line("too many messages", 0), line("no room", 0), line("no access", 0)]);
}
