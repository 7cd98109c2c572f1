//! Prints the headers of SCTP packets as they arrive:
//!
//! ```text
//! receive udp 0.0.0.0:9899        packets in UDP
//! receive raw 0.0.0.0 5060        raw IP, only packets to this SCTP port
//! ```
//!
//! It prints "ready" once the socket is open, and runs until it is killed or its standard input ends.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example")]

use std::error::Error;
use std::io::{ErrorKind, Read};

use strandline_io::{Carrier, PortLock, RawCarrier, RawOptions, RecvBatch, UdpCarrier, UdpOptions};
use tokio::io::Interest;
use tokio::net::UdpSocket;

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut lock = None;
    let carrier: Box<dyn Carrier> = match words[..] {
        ["udp", address] => Box::new(UdpCarrier::bind(address.parse()?, &UdpOptions::default())?),
        ["raw", address, port] => {
            let (address, port) = (address.parse()?, port.parse()?);
            lock = Some(PortLock::port(
                port,
                Some(address).filter(|address: &std::net::IpAddr| !address.is_unspecified()),
            )?);
            Box::new(RawCarrier::open(
                address,
                &RawOptions { ports: vec![port..=port], ..RawOptions::default() },
            )?)
        }
        _ => return Err("usage: receive udp ADDRESS:PORT | receive raw ADDRESS SCTP_PORT".into()),
    };
    println!("ready");
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?
        .block_on(print_packets(carrier.as_ref()))?;
    drop(lock);
    Ok(())
}

async fn print_packets(carrier: &dyn Carrier) -> Result<(), Box<dyn Error>> {
    // A `UdpSocket` can wait for any socket; it isn't used for anything else.
    let socket = UdpSocket::from_std(carrier.as_fd().try_clone_to_owned()?.into())?;
    let mut batch = RecvBatch::new(32);
    loop {
        let ready = socket.ready(Interest::READABLE | Interest::ERROR).await?;
        // `try_io` clears a readiness when nothing is left. It doesn't if it is called for two interests at
        // once.
        if ready.is_error() {
            let _ = socket.try_io(Interest::ERROR, || {
                match carrier.poll_errors(&mut |report| println!("{report:?}")) {
                    0 => Err(ErrorKind::WouldBlock.into()),
                    _ => Ok(()),
                }
            });
        }
        match socket.try_io(Interest::READABLE, || carrier.recv(&mut batch)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            result => _ = result?,
        }
        for (received, packet) in batch.packets() {
            let Some([s0, s1, d0, d1, tag @ ..]) = packet.first_chunk::<8>() else { continue };
            let (source, destination) = (u16::from_be_bytes([*s0, *s1]), u16::from_be_bytes([*d0, *d1]));
            println!(
                "{} sctp {source} > {destination} tag {:08x} length {}",
                received.source,
                u32::from_be_bytes(*tag),
                packet.len()
            );
        }
    }
}
