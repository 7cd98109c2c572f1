//! Several paths at once: new data uses all addresses of two hosts (draft-tuexen-tsvwg-sctp-multipath). Only the sender
//! decides. `cargo run --example multipath`
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;
use std::time::Duration;

use strandline::memory::Network;
use strandline::{
    Association, AssociationConfig, ExtensionsConfig, Listener, Multipath, Peer, SendInfo, Stack,
};

const MESSAGES: usize = 100;
const SIZE: usize = 50_000;

#[tokio::main(flavor = "current_thread", start_paused = true)]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    // `Coupled` takes no more than one flow's share of a link that both paths use; `Independent` suits separate links.
    let extensions = ExtensionsConfig { multipath: Multipath::Coupled, ..ExtensionsConfig::default() };
    let config = AssociationConfig { extensions, ..AssociationConfig::default() };
    // Two links. On a real network: `local_addresses([...])` and `udp("0.0.0.0:9899".parse()?)` instead of `memory`.
    let network = Network::builder().delay(Duration::from_millis(20)).build();
    let here =
        Stack::builder().association(config).memory(&network, ["10.0.0.1".parse()?, "10.0.1.1".parse()?])?;
    let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?, "10.0.1.2".parse()?])?;
    let listener = Listener::bind(&there, 7)?;
    let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
    let server = listener.accept().await?;

    // The second address is used once it has answered a HEARTBEAT.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let sending = async {
        for _ in 0..MESSAGES {
            client.send(&[7; SIZE], SendInfo::default()).await?;
        }
        let paths = client.paths();
        for path in &paths {
            println!("{}: {} bytes in flight", path.address.ip(), path.flight);
        }
        client.shutdown().await;
        Ok::<_, Box<dyn Error>>(paths)
    };
    let receiving = async {
        let mut received = 0;
        while let Some(message) = server.recv().await? {
            received += message.data.len();
        }
        Ok::<_, Box<dyn Error>>(received)
    };
    let (sent, received) = tokio::join!(sending, receiving);
    let (paths, received) = (sent?, received?);
    println!("{received} bytes arrived");
    if paths.len() != 2 || paths.iter().any(|path| path.flight == 0) || received != MESSAGES * SIZE {
        return Err("the two paths did not share the data".into());
    }
    Ok(())
}
