//! Measures the throughput of one association over UDP encapsulation on the loopback interface, and the
//! round-trip time of a message: `cargo run --release --example throughput [MESSAGE_BYTES [SECONDS]]`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example")]
#![allow(clippy::unwrap_used, reason = "an example: it may stop at the first error")]

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use strandline::{Association, Listener, Peer, SendInfo, Stack};
use tokio::time::Instant;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let size = arguments.next().map_or(8192, |text| text.parse().unwrap());
    let seconds = arguments.next().map_or(3, |text| text.parse().unwrap());
    let (tell, hear) = mpsc::channel();
    std::thread::spawn(move || runtime().block_on(serve(&tell)));
    let server = hear.recv().unwrap();
    runtime().block_on(measure(server, size, Duration::from_secs(seconds)));
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Port 1 counts received bytes, port 2 answers.
async fn serve(tell: &mpsc::Sender<SocketAddr>) {
    let stack = Stack::builder().udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let sink = Listener::bind(&stack, 1).unwrap();
    let echo = Listener::bind(&stack, 2).unwrap();
    tell.send(stack.local_addr().unwrap()).unwrap();
    let taker = sink.accept().await.unwrap();
    while taker.recv().await.unwrap().is_some() {}
    let peer = echo.accept().await.unwrap();
    while let Some(message) = peer.recv().await.unwrap() {
        peer.send_bytes(message.data, SendInfo::default()).await.unwrap();
    }
}

async fn measure(server: SocketAddr, size: usize, time: Duration) {
    let stack = Stack::builder().udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let peer = |port| Peer::encapsulated(server, port);
    let message = Bytes::from(vec![7; size]);

    let association = Association::connect(&stack, peer(1)).await.unwrap();
    let begin = Instant::now();
    let mut sent = 0_u64;
    while begin.elapsed() < time {
        for _ in 0..16 {
            association.send_bytes(message.clone(), SendInfo::default()).await.unwrap();
            sent += 1;
        }
    }
    association.shutdown().await;
    let seconds = begin.elapsed().as_secs_f64();
    let megabytes = sent as f64 * size as f64 / 1e6;
    println!(
        "one way: {size}-byte messages, {:.0} MB/s, {:.0} messages/s, {:.0} packets/s",
        megabytes / seconds,
        sent as f64 / seconds,
        stack.stats().packets_sent as f64 / seconds
    );

    let association = Association::connect(&stack, peer(2)).await.unwrap();
    let begin = Instant::now();
    let mut rounds = 0_u64;
    while begin.elapsed() < time / 2 {
        association.send_bytes(message.clone(), SendInfo::default()).await.unwrap();
        let mut received = 0;
        while received < size {
            received += association.recv().await.unwrap().unwrap().data.len();
        }
        rounds += 1;
    }
    println!("there and back: {:.1} us", begin.elapsed().as_secs_f64() * 1e6 / rounds as f64);
}
