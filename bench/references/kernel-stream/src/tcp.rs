//! Throughput of TCP.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use common::{Stopwatch, content};

/// Maximum number of bytes of one read.
const READ_BYTES: usize = 256 << 10;
/// Number of bytes (or of writes, if they are small) between two clock readings.
const CHECK_BYTES: usize = 1 << 20;
const CHECK_WRITES: usize = 1 << 10;

pub(crate) fn receive(args: &crate::Receive) -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, args.port))?;
    let (mut stream, _) = listener.accept()?;
    let watch = Stopwatch::start()?;
    let mut buffer = vec![0; READ_BYTES];
    let (mut bytes, mut reads) = (0, 0);
    loop {
        match stream.read(&mut buffer)? {
            0 => break,
            n => bytes += n as u64,
        }
        reads += 1;
    }
    watch.report("receiver", "tcp", bytes, reads)?.print()
}

pub(crate) fn send(args: &crate::Send) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect((args.to, args.port))?;
    stream.set_nodelay(true)?;
    let data = content(args.size as usize);
    let step = (CHECK_BYTES / data.len()).clamp(1, CHECK_WRITES);
    let watch = Stopwatch::start()?;
    let end = watch.begin + Duration::try_from_secs_f64(args.seconds)?;
    let mut writes = 0;
    while Instant::now() < end {
        for _ in 0..step {
            stream.write_all(&data)?;
        }
        writes += step as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    // The other side closes once it has read everything.
    let _ = stream.read(&mut [0]);
    watch.report("sender", "tcp", writes * data.len() as u64, writes)?.print()
}
