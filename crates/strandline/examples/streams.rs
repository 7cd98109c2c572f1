//! Measures streams of one association over UDP encapsulation on the loopback interface:
//! `cargo run --release --example streams`; with the argument `short` in a few seconds, to see that it works.
//!
//! - 100 streams of bulk data, with all readers and with one that does not read: what the other 99 carry, and
//!   the memory of the receiver's side (stream credit).
//! - 10,000 streams that are opened, carry 1 KB each and are closed, one hundred at a time: how long that
//!   takes, how many numbers it uses, and the memory of the association before and after.
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
use tokio::time::{Instant, sleep, timeout};

/// Streams of bulk data.
const STREAMS: u16 = 100;
/// Streams that are opened and closed at a time.
const AT_ONCE: usize = 100;

/// Bytes that a stream carries if it goes on, and the time in which it surely does.
const ENOUGH: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(120);

/// How much is measured.
struct Extent {
    /// Rounds of bulk data, with and without a reader that stops, in turns.
    rounds: usize,
    /// How long a round goes on before it is measured: slow start, and the credit of the stalled stream.
    warm_up: Duration,
    measured: Duration,
    /// Streams that are opened and closed.
    opened: usize,
    /// How long the association is idle before its memory is read: it gives its buffers back after a while.
    idle: Duration,
}

impl Extent {
    const FULL: Self = Self {
        rounds: 5,
        warm_up: Duration::from_secs(1),
        measured: Duration::from_secs(2),
        opened: 10_000,
        idle: Duration::from_secs(10),
    };
    const SHORT: Self = Self {
        rounds: 1,
        warm_up: Duration::from_millis(200),
        measured: Duration::from_millis(300),
        opened: 1000,
        idle: Duration::ZERO,
    };
}

#[tokio::main]
async fn main() {
    let is_short = std::env::args().nth(1).is_some_and(|argument| argument == "short");
    let extent = if is_short { Extent::SHORT } else { Extent::FULL };
    let rounds = extent.rounds;
    let (mut all, mut others) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        all.push(bulk(&extent, false).await.0);
        others.push(bulk(&extent, true).await);
    }
    all.sort_by(f64::total_cmp);
    others.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let (all, (others, held)) = (all[rounds / 2], others[rounds / 2]);
    println!("99 streams of bulk data: {all:.0} Mbit/s (medians of {rounds})");
    println!("  beside one whose reader has stopped: {others:.0} Mbit/s, ratio {:.2}", others / all);
    println!("  memory of the receiver's side: {held} bytes");
    open_and_close(&extent).await;
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

/// Returns the rate of streams 1 to 99 in Mbit/s, and the memory of the receiver's side at the end. The
/// reader of stream 0 reads, or not.
async fn bulk(extent: &Extent, stalls: bool) -> (f64, usize) {
    let (client, server) = connect().await;
    let received: Arc<Vec<AtomicU64>> = Arc::new((0..STREAMS).map(|_| AtomicU64::new(0)).collect());
    let by_others = || -> u64 { received[1..].iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum() };
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
                received[usize::from(number)].fetch_add(len as u64, Ordering::Relaxed);
            }
        });
    }
    sleep(extent.warm_up).await;
    let (before, began) = (by_others(), Instant::now());
    sleep(extent.measured).await;
    let bytes = by_others() - before;
    let held = server.control().memory().map_or(0, |report| report.total());
    let rate = bytes as f64 * 8.0 / began.elapsed().as_secs_f64() / 1e6;
    goes_on(&received).await;
    client.abort("measured");
    (rate, held)
}

/// Waits until each of streams 1 to 99 has carried [`ENOUGH`]: none of them waits for stream 0.
async fn goes_on(received: &[AtomicU64]) {
    let least = || received[1..].iter().map(|bytes| bytes.load(Ordering::Relaxed)).min().unwrap_or(0);
    let enough = async {
        while least() < ENOUGH {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(PATIENCE, enough).await.is_ok(), "a stream has stopped at {} bytes", least());
}

async fn open_and_close(extent: &Extent) {
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
    for _ in 0..extent.opened / AT_ONCE {
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
    sleep(extent.idle).await;
    let opened = extent.opened;
    println!("{opened} streams of 1 KB each way, {AT_ONCE} at a time: {:.2} s", took.as_secs_f64());
    println!(
        "  first data given {:?} after a stream is opened (median), highest number {}",
        firsts[opened / 2],
        highest.0
    );
    println!("  memory of the association: {before} bytes before, {} after", memory(&client));
    assert!(usize::from(highest.0) < opened, "numbers serve again: the highest is {}", highest.0);
}
