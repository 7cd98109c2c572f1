//! Sets up associations with a first echo over UDP encapsulation, one after another: the subject of the
//! benchmark rows "setup". The time runs from the start of the set-up to the last byte of the echo; the
//! association ends after that.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example")]

mod common;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use mimalloc::MiMalloc;
use strandline::{Association, Listener, Peer, SendInfo};

use common::{ENCAPSULATION_PORT, stack};

/// The allocator of the `strandline` program, with its setting.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const PORT: u16 = 5001;

#[derive(Debug, Parser)]
enum Command {
    /// Echo one message on each association, until killed.
    Serve,
    /// Set up an association, send a message, wait for its echo.
    Call {
        /// The server's address.
        #[arg(long)]
        to: IpAddr,
        /// Message size in bytes.
        #[arg(long, default_value_t = 1550)]
        size: usize,
        /// Duration in seconds.
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Send before the association is established, so that the data goes with the COOKIE ECHO.
        #[arg(long)]
        early: bool,
    },
}

fn main() -> Result<()> {
    strandline_ops::heap::give_back_at_once();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Runs in a task, as in a program with many of them: tokio polls the system for events before it polls
    // the future of `block_on`.
    runtime.block_on(async {
        tokio::spawn(async {
            match Command::parse() {
                Command::Serve => serve().await,
                Command::Call { to, size, seconds, early } => {
                    let duration = Duration::try_from_secs_f64(seconds).context("--seconds")?;
                    call(to, size, duration, early).await
                }
            }
        })
        .await?
    })
}

async fn serve() -> Result<()> {
    let stack = stack(ENCAPSULATION_PORT)?;
    let listener = Listener::bind(&stack, PORT)?;
    loop {
        let association = listener.accept().await?;
        // The next association comes after the end of this one.
        if let Ok(Some(message)) = association.recv().await {
            association.send_bytes(message.data, SendInfo::default()).await?;
            while let Ok(Some(_)) = association.recv().await {}
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn call(to: IpAddr, size: usize, duration: Duration, early: bool) -> Result<()> {
    let stack = stack(0)?;
    let peer = || Peer::new(to, PORT);
    let data: Vec<u8> = (0..size).map(|i| i as u8).collect();
    let (mut setups, mut transactions) = (Vec::new(), Vec::new());
    let end = Instant::now() + duration;
    while Instant::now() < end {
        let begin = Instant::now();
        let association = if early {
            Association::start(&stack, peer(), 0, None)?
        } else {
            Association::connect(&stack, peer()).await?
        };
        setups.push(begin.elapsed());
        association.send(&data, SendInfo::default()).await?;
        let Some(message) = association.recv().await? else { bail!("the server ended it") };
        transactions.push(begin.elapsed());
        ensure!(message.data.len() == size, "an echo of {} bytes", message.data.len());
        association.shutdown().await;
    }
    // With data on the COOKIE ECHO there is no moment at which only the set-up has happened.
    let setup = if early { &mut transactions.clone() } else { &mut setups };
    println!(
        "{{\"side\":\"client\",\"transport\":\"sctp\",\"transactions\":{},\"setup_us\":{:.3},\"transaction_us\":{:.3}}}",
        transactions.len(),
        median_us(setup).context("nothing was measured")?,
        median_us(&mut transactions).context("nothing was measured")?,
    );
    Ok(())
}

fn median_us(times: &mut [Duration]) -> Option<f64> {
    times.sort_unstable();
    Some(times.get(times.len() / 2)?.as_secs_f64() * 1e6)
}
