//! Echoes of a small message beside bulk data: the subject of the benchmark rows "beside". The small message goes on
//! the association of the bulk data, on a second one, or with TCP on a connection of its own. The time of each echo
//! runs from the call that sends it until the answer has been read.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example")]

mod common;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, ValueEnum};
use mimalloc::MiMalloc;
use strandline::{Association, Listener, Peer, Ppid, SendInfo, StreamId};

use common::{ENCAPSULATION_PORT, stack};

/// The allocator of the `strandline` program, with its setting.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const PORT: u16 = 5001;

/// Payload protocol identifiers of a message to echo, and of the request for the number of bytes received.
const ECHO: Ppid = Ppid(1);
const COUNT: Ppid = Ppid(2);

/// Length of the small message in bytes.
const SMALL: usize = 64;

/// Length of a write of bulk data over TCP in bytes.
const TCP_WRITE: usize = 128 << 10;

/// Pause between an answer and the next small message.
const PAUSE: Duration = Duration::from_millis(1);

/// What the small messages travel on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum On {
    /// A second stream of the association that carries the bulk data.
    Stream,
    /// An association of its own.
    Association,
    /// A TCP connection of its own, beside a TCP connection with the bulk data.
    Tcp,
}

#[derive(Debug, Parser)]
enum Command {
    /// Take bulk data and echo small messages, over SCTP and TCP, until killed.
    Serve,
    /// Measure.
    Call {
        /// The server's address.
        #[arg(long)]
        to: IpAddr,
        /// What the small messages travel on.
        #[arg(long)]
        on: On,
        /// Send small messages only, or bulk data only.
        #[arg(long, value_parser = ["echo", "bulk"])]
        only: Option<String>,
        /// Length of a message of bulk data in bytes.
        #[arg(long, default_value_t = 8192)]
        size: usize,
        /// Duration in seconds.
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
    },
}

/// The bytes that the peer received, and the time it took.
type Carried = (u64, Duration);

fn main() -> Result<()> {
    strandline_ops::heap::give_back_at_once();
    let command = Command::parse();
    if let Command::Call { on: On::Tcp, to, ref only, seconds, .. } = command {
        return tcp_call(to, only.as_deref(), Duration::try_from_secs_f64(seconds)?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::spawn(async {
            match command {
                Command::Serve => serve().await,
                Command::Call { to, on, only, size, seconds } => {
                    call(to, on, only.as_deref(), size, Duration::try_from_secs_f64(seconds)?).await
                }
            }
        })
        .await?
    })
}

async fn serve() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            std::thread::spawn(move || tcp_answer(connection));
        }
    });
    let stack = stack(ENCAPSULATION_PORT)?;
    let listener = Listener::bind(&stack, PORT)?;
    loop {
        let association = listener.accept().await?;
        tokio::spawn(answer(association));
    }
}

/// Counts bulk data, and answers everything else.
async fn answer(association: Association) -> Result<()> {
    let (mut bytes, mut messages) = (0_u64, Vec::new());
    while association.recv_many(&mut messages, 256).await? > 0 {
        for message in messages.drain(..) {
            match message.ppid {
                ECHO => {
                    association.send_bytes(message.data, SendInfo::on(message.stream).ppid(ECHO)).await?;
                }
                COUNT => association.send(&bytes.to_be_bytes(), SendInfo::default().ppid(COUNT)).await?,
                _ => bytes += message.data.len() as u64,
            }
        }
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn call(to: IpAddr, on: On, only: Option<&str>, size: usize, duration: Duration) -> Result<()> {
    let stack = stack(0)?;
    let bulk = Association::connect(&stack, Peer::new(to, PORT)).await?;
    let small = match on {
        On::Association => Association::connect(&stack, Peer::new(to, PORT)).await?,
        _ => bulk.clone(),
    };
    let end = Instant::now() + duration;
    let sending = bulk.clone();
    let sender = (only != Some("echo")).then(|| tokio::spawn(send_bulk(sending, size, end)));
    let mut times = Vec::new();
    if only != Some("bulk") {
        let info = SendInfo::on(StreamId(1)).ppid(ECHO);
        while Instant::now() < end {
            let begin = Instant::now();
            small.send(&[7; SMALL], info).await?;
            let Some(message) = small.recv().await? else { bail!("the server ended it") };
            times.push(begin.elapsed());
            ensure!(message.data.len() == SMALL, "an echo of {} bytes", message.data.len());
            tokio::time::sleep(PAUSE).await;
        }
    }
    let carried = match sender {
        Some(sender) => {
            let begin = end - duration;
            sender.await??;
            bulk.send(b"count", SendInfo::default().ppid(COUNT)).await?;
            let Some(message) = bulk.recv().await? else { bail!("the server ended it") };
            let count = message.data.first_chunk().context("a malformed count")?;
            Some((u64::from_be_bytes(*count), begin.elapsed()))
        }
        None => None,
    };
    print(&mut times, carried);
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn send_bulk(association: Association, size: usize, end: Instant) -> Result<()> {
    let data: Vec<u8> = (0..size).map(|i| i as u8).collect();
    while Instant::now() < end {
        for _ in 0..16 {
            association.send(&data, SendInfo::default()).await?;
        }
    }
    Ok(())
}

/// Serves a TCP connection: its first byte says whether it carries bulk data or small messages.
fn tcp_answer(mut connection: TcpStream) -> Result<()> {
    connection.set_nodelay(true)?;
    let mut kind = [0];
    connection.read_exact(&mut kind)?;
    if kind == *b"e" {
        let mut message = [0; SMALL];
        while connection.read_exact(&mut message).is_ok() {
            connection.write_all(&message)?;
        }
        return Ok(());
    }
    let (mut bytes, mut buffer) = (0_u64, vec![0; TCP_WRITE]);
    loop {
        match connection.read(&mut buffer)? {
            0 => break,
            read => bytes += read as u64,
        }
    }
    Ok(connection.write_all(&bytes.to_be_bytes())?)
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn tcp_call(to: IpAddr, only: Option<&str>, duration: Duration) -> Result<()> {
    let connect = |kind: &[u8]| -> Result<TcpStream> {
        let mut connection = TcpStream::connect((to, PORT))?;
        connection.set_nodelay(true)?;
        connection.write_all(kind)?;
        Ok(connection)
    };
    let begin = Instant::now();
    let end = begin + duration;
    let bulk = (only != Some("echo")).then(|| connect(b"b")).transpose()?;
    let sender = bulk.map(|bulk| std::thread::spawn(move || tcp_bulk(bulk, begin, end)));
    let mut times = Vec::new();
    if only != Some("bulk") {
        let mut small = connect(b"e")?;
        let mut message = [7; SMALL];
        while Instant::now() < end {
            let begin = Instant::now();
            small.write_all(&message)?;
            small.read_exact(&mut message)?;
            times.push(begin.elapsed());
            std::thread::sleep(PAUSE);
        }
    }
    let carried = match sender {
        Some(sender) => Some(sender.join().ok().context("the sender failed")??),
        None => None,
    };
    print(&mut times, carried);
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn tcp_bulk(mut bulk: TcpStream, begin: Instant, end: Instant) -> Result<Carried> {
    let data = vec![7; TCP_WRITE];
    while Instant::now() < end {
        bulk.write_all(&data)?;
    }
    bulk.shutdown(std::net::Shutdown::Write)?;
    let mut count = [0; 8];
    bulk.read_exact(&mut count)?;
    Ok((u64::from_be_bytes(count), begin.elapsed()))
}

/// Prints what was measured, as JSON; what was not is null.
fn print(times: &mut [Duration], carried: Option<Carried>) {
    times.sort_unstable();
    let at = |share: f64| {
        let time = times.get((times.len() as f64 * share) as usize);
        time.map_or("null".to_owned(), |time| format!("{:.1}", time.as_secs_f64() * 1e6))
    };
    let goodput = carried.map_or("null".to_owned(), |(bytes, time)| {
        format!("{:.1}", bytes as f64 * 8.0 / time.as_secs_f64() / 1e6)
    });
    let (p50, p99, echoes) = (at(0.5), at(0.99), times.len());
    println!("{{\"echoes\":{echoes},\"p50_us\":{p50},\"p99_us\":{p99},\"goodput_mbps\":{goodput}}}");
}
