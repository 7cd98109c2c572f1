//! Measures streams of one association over UDP encapsulation on the loopback interface:
//! `cargo run --release --example streams`.
//!
//! - 100 streams of bulk data, with all readers and with one that does not read: what the other 99 carry, and the memory
//!   of the receiver's side (stream credit).
//! - 10,000 streams that are opened, carry 1 KB each and are closed, one hundred at a time: how long that takes, how many
//!   numbers it uses, and the memory of the association before and after.
#![allow(clippy::print_stdout, reason = "an example")]
#![allow(clippy::unwrap_used, reason = "an example: it may stop at the first error")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use strandline::{
    Association, AssociationConfig, DynamicStreams, ExtensionsConfig, Listener, Peer, Stack, StreamCredit,
    StreamId,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

/// Streams of bulk data.
const STREAMS: u16 = 100;
/// How long each measurement of them takes, and how often it is made with and without a reader that stops, in turns.
const MEASURED: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;
/// Streams that are opened and closed, and how many of them at a time.
const OPENED: usize = 10_000;
const AT_ONCE: usize = 100;

#[tokio::main]
async fn main() {
    let (mut all, mut others) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        all.push(bulk(false).await.0);
        others.push(bulk(true).await);
    }
    all.sort_by(f64::total_cmp);
    others.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let (all, (others, held)) = (all[ROUNDS / 2], others[ROUNDS / 2]);
    println!("99 streams of bulk data: {all:.0} Mbit/s (medians of {ROUNDS})");
    println!("  beside one whose reader has stopped: {others:.0} Mbit/s, ratio {:.2}", others / all);
    println!("  memory of the receiver's side: {held} bytes");
    open_and_close().await;
}

/// Returns an association's two sides, with stream credit and dynamic streams.
async fn connect() -> (Association, Association) {
    let extensions = ExtensionsConfig {
        interleaving: true,
        stream_credit: Some(StreamCredit::default()),
        ..ExtensionsConfig::default()
    };
    let config = AssociationConfig { extensions, ..AssociationConfig::default() };
    let stack = || Stack::builder().association(config.clone()).udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let (here, there) = (stack(), stack());
    let listener = Listener::bind(&there, 7).unwrap();
    let udp = there.local_addr().unwrap();
    let peer = Peer::encapsulated(udp, 7);
    let (client, server) = tokio::join!(Association::connect(&here, peer), listener.accept());
    let (client, server) = (client.unwrap(), server.unwrap());
    // The stacks live as long as their associations.
    (client, server)
}

/// Returns the rate of streams 1 to 99 in Mbit/s, and the memory of the receiver's side at the end. The reader of stream 0
/// reads, or not.
async fn bulk(stalls: bool) -> (f64, usize) {
    let (client, server) = connect().await;
    let received = Arc::new(AtomicU64::new(0));
    let mut kept = Vec::new();
    for number in 0..STREAMS {
        let mut writer = client.open_send(StreamId(number)).unwrap();
        tokio::spawn(async move {
            let data = vec![7; 64 << 10];
            while writer.write_all(&data).await.is_ok() {}
        });
        let mut reader = server.open_recv(StreamId(number)).unwrap();
        if number == 0 && stalls {
            kept.push(reader);
            continue;
        }
        let received = Arc::clone(&received);
        tokio::spawn(async move {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(len @ 1..) = reader.read(&mut buffer).await {
                if number > 0 {
                    received.fetch_add(len as u64, Ordering::Relaxed);
                }
            }
        });
    }
    // Slow start, and the credit of the stalled stream.
    sleep(Duration::from_secs(1)).await;
    let (before, began) = (received.load(Ordering::Relaxed), Instant::now());
    sleep(MEASURED).await;
    let bytes = received.load(Ordering::Relaxed) - before;
    let held = server.control().memory().map_or(0, |report| report.total());
    let rate = bytes as f64 * 8.0 / began.elapsed().as_secs_f64() / 1e6;
    client.abort("measured");
    (rate, held)
}

async fn open_and_close() {
    let (client, server) = connect().await;
    for side in [&client, &server] {
        side.set_dynamic_streams(DynamicStreams { first: StreamId(0), ..DynamicStreams::default() }).unwrap();
    }
    tokio::spawn({
        let server = server.clone();
        async move {
            while let Ok(mut stream) = server.accept_stream().await {
                tokio::spawn(async move {
                    let mut bytes = Vec::new();
                    stream.read_to_end(&mut bytes).await.unwrap();
                    stream.write_all(&bytes).await.unwrap();
                    stream.shutdown().await.unwrap();
                });
            }
        }
    });
    let memory = |side: &Association| side.control().memory().map_or(0, |report| report.total());
    let before = memory(&client);
    let (mut highest, mut firsts) = (StreamId(0), Vec::new());
    let began = Instant::now();
    for _ in 0..OPENED / AT_ONCE {
        let streams: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    let opened = Instant::now();
                    let mut stream = client.open_stream().await.unwrap();
                    // The first data goes without a round trip.
                    stream.write_all(&[7; 1024]).await.unwrap();
                    let first = opened.elapsed();
                    stream.shutdown().await.unwrap();
                    let mut answer = Vec::new();
                    stream.read_to_end(&mut answer).await.unwrap();
                    assert_eq!(answer.len(), 1024);
                    (stream.id(), first)
                })
            })
            .collect();
        for stream in streams {
            let (id, first) = stream.await.unwrap();
            highest = highest.max(id);
            firsts.push(first);
        }
    }
    let took = began.elapsed();
    firsts.sort_unstable();
    // An association gives its buffers back once it has been idle for a while.
    sleep(Duration::from_secs(10)).await;
    println!("{OPENED} streams of 1 KB each way, {AT_ONCE} at a time: {:.2} s", took.as_secs_f64());
    println!(
        "  first data given {:?} after a stream is opened (median), highest number {}",
        firsts[OPENED / 2],
        highest.0
    );
    println!("  memory of the association: {before} bytes before, {} after", memory(&client));
}
