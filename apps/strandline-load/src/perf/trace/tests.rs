#![allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first error")]

use serde_json::Value;
use strandline::memory::Network;
use strandline::{Association, Listener, SendInfo, Stack};

use super::*;

/// A file whose content can be read back.
#[derive(Debug, Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A disk that is full after this many bytes.
#[derive(Debug)]
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.checked_sub(bytes.len()) {
            Some(rest) => self.0 = rest,
            None => return Err(io::ErrorKind::StorageFull.into()),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a transfer in virtual time, traced at its sender.
async fn transfer(trace: Arc<Trace>) {
    let network = Network::new();
    let here = Stack::builder().observer(trace).memory(&network, ["10.0.0.1".parse().unwrap()]).unwrap();
    let there = Stack::builder().memory(&network, ["10.0.0.2".parse().unwrap()]).unwrap();
    let listener = Listener::bind(&there, 7).unwrap();
    let association = Association::connect(&here, strandline::Peer::new([10, 0, 0, 2], 7)).await.unwrap();
    let accepted = listener.accept().await.unwrap();
    for _ in 0..10 {
        association.send(&[0; 5000], SendInfo::default()).await.unwrap();
        accepted.recv().await.unwrap().unwrap();
    }
    association.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn trace_lines_are_json_and_complete() {
    let paper = Paper::default();
    let trace = Arc::new(Trace::to(paper.clone()));
    transfer(Arc::clone(&trace)).await;
    trace.finish().unwrap();
    let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["event"], &lines[0]["format"]), (&"start".into(), &FORMAT.into()));
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
    let sent: Vec<_> = of("data").into_iter().filter(|line| line["sent"] == true).collect();
    let bytes: u64 = sent.iter().map(|line| line["bytes"].as_u64().unwrap()).sum();
    assert_eq!(bytes, 50_000);
    assert!(sent.iter().all(|line| line["again"].is_null() && line["peer"] == "10.0.0.2:9899"), "{sent:?}");
    let last = sent.last().unwrap()["last"].as_u64();
    assert_eq!(of("sack").last().unwrap()["cumulative"].as_u64(), last);
    let path = of("path").last().copied().unwrap();
    assert!(path["cwnd"].as_u64().unwrap() > 10_000 && path["primary"] == true, "{path}");
    assert!(of("association").iter().any(|line| line["peer_rwnd"].as_u64().unwrap() > 0));
    let times: Vec<f64> = lines.iter().map(|line| line["t"].as_f64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn retransmissions_are_distinguished_in_traces() {
    let trace = Trace::to(Paper::default());
    let mut output = trace.output();
    let mut again = |port, tsn| output.again(port, Tsn(tsn), None);
    assert_eq!(again(1, u32::MAX), None, "the first");
    assert_eq!(again(1, 0), None, "the next, round the end of the numbers");
    assert_eq!(again(2, 0), None, "of another association");
    assert_eq!(again(1, u32::MAX), Some("unknown"), "a second time");
}

#[tokio::test(start_paused = true)]
async fn full_disk_is_reported_without_stopping_tests() {
    let trace = Arc::new(Trace::to(Full(0)));
    transfer(Arc::clone(&trace)).await;
    let told = format!("{:#}", trace.finish().unwrap_err());
    assert!(told.contains("incomplete"), "{told}");
}

#[test]
fn missing_folder_is_reported_before_the_test() {
    let told = format!("{:#}", Trace::create(Path::new("/nowhere/at/all.jsonl")).unwrap_err());
    assert!(told.contains("does the directory exist"), "{told}");
}
