//! Dynamic addresses (RFC 5061): an association moves from one network to another while it lasts.
//! `cargo run --example addresses`
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;
use std::net::IpAddr;

use strandline::memory::Network;
use strandline::{
    AddressRequest, Association, AssociationConfig, ExtensionsConfig, Listener, Notification, Peer, SendInfo,
    Stack,
};

#[tokio::main(flavor = "current_thread", start_paused = true)]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    // Its chunks are always authenticated; shared keys (see the example `keys`) make that worth something.
    let extensions = ExtensionsConfig { dynamic_addresses: true, ..ExtensionsConfig::default() };
    let config = AssociationConfig { extensions, ..AssociationConfig::default() };

    let network = Network::new(); // On a real network: `udp("0.0.0.0:9899".parse()?)` instead of `memory`.
    let (cable, radio): (IpAddr, IpAddr) = ("10.0.0.1".parse()?, "10.0.1.1".parse()?);
    // A host with two addresses, of which peers are told one.
    let here = Stack::builder()
        .association(config.clone())
        .local_addresses([cable])
        .memory(&network, [cable, radio])?;
    let there = Stack::builder().association(config).memory(&network, ["10.0.0.2".parse()?])?;
    let listener = Listener::bind(&there, 7)?;
    let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
    let server = listener.accept().await?;

    // One after the other: the peer sends to the new address before the old one goes.
    let mut events = client.events();
    let requests =
        [AddressRequest::Add(radio), AddressRequest::SetPrimary(radio), AddressRequest::Delete(cable)];
    for request in requests {
        client.control().request_addresses(&[request])?;
        loop {
            let event = events.next().await.ok_or("the association has ended")?;
            if let Notification::AddressRequest { request, outcome, .. } = event {
                println!("{request:?}: {outcome:?}");
                break;
            }
        }
    }

    server.send(b"still there?", SendInfo::default()).await?;
    let message = client.recv().await?.ok_or("end")?;
    let addresses: Vec<IpAddr> = server.paths().iter().map(|path| path.address.ip()).collect();
    println!("{:?} arrived at {addresses:?}", message.data);
    client.shutdown().await;
    Ok(())
}
