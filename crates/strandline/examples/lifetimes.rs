//! Partial reliability (RFC 3758, RFC 7496): messages that are worth nothing after a while are not sent again
//! and again, and hold up nothing. `cargo run --example lifetimes`
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;
use std::time::Duration;

use strandline::memory::Network;
use strandline::{Association, Listener, Notification, Peer, Reliability, SendInfo, Stack, StreamId};

const POSITIONS: u32 = 200;

#[tokio::main(flavor = "current_thread", start_paused = true)]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    // A bad radio link. On a real network: `udp("0.0.0.0:9899".parse()?)` instead of `memory`.
    let network = Network::builder().delay(Duration::from_millis(40)).loss(0.1).seed(7).build();
    let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
    let listener = Listener::bind(&there, 7)?;
    let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
    let server = listener.accept().await?;

    // A position every 20 ms, of which the next one takes the place after 60 ms; and a command that must arrive.
    let mut events = client.events();
    let position = SendInfo::on(StreamId(1)).reliability(Reliability::lifetime(Duration::from_millis(60)));
    for number in 0..POSITIONS {
        client.send(format!("position {number}").as_bytes(), position.context(number)).await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client.send(b"land", SendInfo::on(StreamId(0))).await?;
    client.shutdown().await;

    let (mut positions, mut commands, mut given_up) = (0, 0, 0);
    while let Some(message) = server.recv().await? {
        match message.stream {
            StreamId(0) => commands += 1,
            _ => positions += 1,
        }
    }
    // Messages that were given up are reported with their context and the cause.
    while let Some(event) = events.next().await {
        given_up += u32::from(matches!(event, Notification::SendFailed(_)));
    }
    println!("{positions} of {POSITIONS} positions arrived, {given_up} were given up; {commands} command");
    Ok(())
}
