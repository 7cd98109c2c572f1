//! Interleaving and a priority scheduler (RFC 8260): an urgent message passes a large one that is already being sent.
//! `cargo run --example priorities`
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;
use std::time::Duration;

use strandline::memory::Network;
use strandline::{
    Association, AssociationConfig, ExtensionsConfig, Listener, Peer, SendInfo, Stack, StreamId,
    StreamScheduler,
};

const URGENT: StreamId = StreamId(0);
const BULK: StreamId = StreamId(1);

#[tokio::main(flavor = "current_thread", start_paused = true)]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let extensions = ExtensionsConfig { interleaving: true, ..ExtensionsConfig::default() };
    let config = AssociationConfig {
        extensions,
        stream_scheduler: StreamScheduler::Priority,
        ..AssociationConfig::default()
    };
    // On a real network: `udp("0.0.0.0:9899".parse()?)` instead of `memory`.
    let network = Network::builder().delay(Duration::from_millis(20)).build();
    let here = Stack::builder().association(config.clone()).memory(&network, ["10.0.0.1".parse()?])?;
    let there = Stack::builder().association(config).memory(&network, ["10.0.0.2".parse()?])?;
    let listener = Listener::bind(&there, 7)?;
    let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
    let server = listener.accept().await?;

    // The higher the value, the lower the priority; streams begin with 0, the highest.
    client.control().set_stream_value(BULK, 10)?;
    client.send(&vec![7; 1_000_000], SendInfo::on(BULK)).await?;
    tokio::time::sleep(Duration::from_millis(50)).await;
    client.send(b"stop the press", SendInfo::on(URGENT)).await?;

    let mut order = Vec::new();
    while order.len() < 2 {
        // A message larger than `partial_delivery_point` arrives in parts.
        let message = server.recv().await?.ok_or("end")?;
        if message.ends {
            order.push(message.stream);
        }
    }
    println!("complete first: stream {}", order[0].0);
    client.shutdown().await;
    if order != [URGENT, BULK] {
        return Err(format!("the urgent message did not pass the large one: {order:?}").into());
    }
    Ok(())
}
