//! Measures the throughput of the carriers on this host's loopback interface, without SCTP above them:
//!
//! ```text
//! cargo run --release -p strandline-io --example carrier_throughput
//! ```
//!
//! One thread sends bursts of 40 packets of 1,452 bytes as fast as it can, another receives. Raw IP needs root.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example")]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::error::Error;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use strandline_io::{Carrier, Outgoing, RawCarrier, RawOptions, RecvBatch, UdpCarrier, UdpOptions};
use tokio::io::Interest;
use tokio::net::UdpSocket;

const PACKET_BYTES: usize = 1_452;
const PACKETS: usize = 40;
const DURATION: Duration = Duration::from_secs(2);
const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:<28}{:>12}{:>12}{:>12}{:>16}", "", "packets/s", "MB/s", "lost", "packets/call");
    let udp = |segmentation, coalescing| {
        let options = UdpOptions { segmentation, coalescing, ..UdpOptions::default() };
        UdpCarrier::bind(SocketAddr::new(HOST, 0), &options)
    };
    for (name, segmentation, coalescing) in [
        ("UDP, GSO and GRO", true, true),
        ("UDP, GSO only", true, false),
        ("UDP, sendmmsg and recvmmsg", false, false),
    ] {
        let (sender, receiver) = (udp(segmentation, coalescing)?, udp(segmentation, coalescing)?);
        measure(name, &sender, &receiver, receiver.local_addr())?;
    }
    let ports = |port| RawOptions { ports: vec![port..=port], ..RawOptions::default() };
    match (RawCarrier::open(HOST, &ports(1)), RawCarrier::open(HOST, &ports(2))) {
        (Ok(sender), Ok(receiver)) => measure("raw IP", &sender, &receiver, SocketAddr::new(HOST, 0))?,
        (Err(error), _) | (_, Err(error)) => println!("raw IP: {error}"),
    }
    Ok(())
}

fn measure(
    name: &str,
    sender: &dyn Carrier,
    receiver: &dyn Carrier,
    destination: SocketAddr,
) -> Result<(), Box<dyn Error>> {
    let done = AtomicBool::new(false);
    let (seconds, packets, bytes) = thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(receiver, &done));
        let start = Instant::now();
        send(sender, destination, start + DURATION).map_err(|error| error.to_string())?;
        let seconds = start.elapsed().as_secs_f64();
        done.store(true, Ordering::Relaxed);
        let (packets, bytes) =
            receiving.join().map_err(|_| "receiving failed")?.map_err(|error| error.to_string())?;
        Ok::<_, String>((seconds, packets, bytes))
    })?;
    let sent = sender.send_stats();
    println!(
        "{name:<28}{:>12.0}{:>12.0}{:>11.2}%{:>16.1}",
        packets as f64 / seconds,
        bytes as f64 / seconds / 1e6,
        100.0 * (1.0 - packets as f64 / sent.packets as f64),
        sent.packets as f64 / sent.calls as f64
    );
    Ok(())
}

/// Sends bursts until `end`. The SCTP destination port is 2.
fn send(carrier: &dyn Carrier, destination: SocketAddr, end: Instant) -> std::io::Result<()> {
    let mut bytes = vec![0; PACKETS * PACKET_BYTES];
    for packet in bytes.chunks_mut(PACKET_BYTES) {
        packet[3] = 2;
    }
    while Instant::now() < end {
        let mut burst = Outgoing::burst(destination, &bytes, PACKET_BYTES);
        while let Err(error) = carrier.send(&mut burst) {
            if error.kind() != ErrorKind::WouldBlock {
                return Err(error);
            }
            thread::yield_now();
        }
    }
    Ok(())
}

fn receive(carrier: &dyn Carrier, done: &AtomicBool) -> std::io::Result<(u64, u64)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let socket = UdpSocket::from_std(carrier.as_fd().try_clone_to_owned()?.into())?;
        let mut batch = RecvBatch::new(32);
        let (mut packets, mut bytes) = (0, 0);
        loop {
            match socket.try_io(Interest::READABLE, || carrier.recv(&mut batch)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if done.load(Ordering::Relaxed) {
                        return Ok((packets, bytes));
                    }
                    let _ = tokio::time::timeout(Duration::from_millis(20), socket.readable()).await;
                }
                result => _ = result?,
            }
            for (_, packet) in batch.packets() {
                packets += 1;
                bytes += packet.len() as u64;
            }
        }
    })
}
