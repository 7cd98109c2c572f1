//! Both sides over the kernel's TCP, for comparison: plain blocking sockets, a thread for each connection, which is
//! the least that TCP can cost a program.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};

use super::meter::{Line, Meter, Stopwatch, now};
use super::report::Report;
use super::{ReceiveArgs, SendArgs, seconds};

/// Bytes that one read takes at most.
const READ_BYTES: usize = 256 << 10;

pub(crate) fn receive(args: &ReceiveArgs) -> anyhow::Result<Report> {
    let address = SocketAddr::new(args.bind, args.common.port);
    let listener = TcpListener::bind(address).with_context(|| format!("listening on TCP {address}"))?;
    eprintln!("receiving on TCP {address}");
    let meter = Meter::default();
    let done = AtomicBool::new(false);
    let (seconds, cpu) = thread::scope(|scope| {
        if !args.common.quiet {
            scope.spawn(|| print_lines(&meter, &done));
        }
        let result = accept_all(args, &listener, &meter);
        done.store(true, Ordering::Relaxed);
        result
    })?;
    Ok(Report::new("receiver", "tcp", &meter, seconds, cpu))
}

/// With `--once`, until every connection that came has ended; else for ever.
fn accept_all(
    args: &ReceiveArgs,
    listener: &TcpListener,
    meter: &Meter,
) -> anyhow::Result<(f64, super::usage::CpuTime)> {
    let (first, _) = listener.accept().context("accepting a connection")?;
    let watch = Stopwatch::start()?;
    if args.once && args.connections == 1 {
        drain(first, meter)?;
        return Ok(watch.lap()?);
    }
    thread::scope(|scope| {
        let mut next = Some(first);
        let mut accepted = 0;
        while let Some(stream) = next.take() {
            scope.spawn(|| drain(stream, meter));
            accepted += 1;
            if !args.once || accepted < args.connections {
                next = Some(listener.accept().context("accepting a connection")?.0);
            }
        }
        Ok::<_, anyhow::Error>(())
    })?;
    Ok(watch.lap()?)
}

fn drain(mut stream: TcpStream, meter: &Meter) -> anyhow::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match stream.read(&mut buffer).context("reading")? {
            0 => return Ok(()),
            bytes => meter.count_shared(bytes),
        }
    }
}

pub(crate) fn send(args: &SendArgs) -> anyhow::Result<Report> {
    let address = SocketAddr::new(args.to, args.common.port);
    let connect = || {
        let stream = TcpStream::connect(address).with_context(|| format!("connecting to TCP {address}"))?;
        stream.set_nodelay(!args.nagle)?;
        Ok::<_, anyhow::Error>(stream)
    };
    let streams = (0..args.associations).map(|_| connect()).collect::<Result<Vec<_>, _>>()?;
    let data: Arc<[u8]> = (0..args.size).map(|i| i as u8).collect();
    let meter = Meter::default();
    let done = AtomicBool::new(false);
    let watch = Stopwatch::start()?;
    let end = watch.begin + seconds(args.duration)?;
    let (seconds, cpu) = thread::scope(|scope| {
        if !args.common.quiet {
            scope.spawn(|| print_lines(&meter, &done));
        }
        let run = |stream| push(stream, &data, end, &meter);
        let threads: Vec<_> = streams.into_iter().map(|stream| scope.spawn(move || run(stream))).collect();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        done.store(true, Ordering::Relaxed);
        for result in results {
            result.map_err(|_| anyhow!("a sending thread failed"))??;
        }
        Ok::<_, anyhow::Error>(watch.lap()?)
    })?;
    Ok(Report::new("sender", "tcp", &meter, seconds, cpu))
}

/// Sends until the time is over, and waits until the other side has read all.
fn push(mut stream: TcpStream, data: &[u8], end: Instant, meter: &Meter) -> anyhow::Result<()> {
    let step = ((1 << 20) / data.len()).clamp(1, 1 << 10);
    while now() < end {
        for _ in 0..step {
            stream.write_all(data).context("writing")?;
            meter.count_shared(data.len());
        }
    }
    stream.shutdown(Shutdown::Write)?;
    // The other side closes once it has read everything.
    let _ = stream.read(&mut [0]);
    Ok(())
}

fn print_lines(meter: &Meter, done: &AtomicBool) {
    let mut line = Line::new(meter);
    while !done.load(Ordering::Relaxed) {
        thread::park_timeout(Duration::from_secs(1));
        line.print(meter);
    }
}
