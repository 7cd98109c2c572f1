//! Authenticated chunks (RFC 4895): both sides know a secret, and drop data that nobody who knows it has sent.
//! `cargo run --example keys`
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;

use strandline::memory::Network;
use strandline::{
    Association, AssociationConfig, Authentication, ExtensionsConfig, KeyChange, KeyId, Listener, Peer,
    SendInfo, SharedKey, Stack,
};

/// Chunk types that peers must authenticate: DATA, SACK and ABORT.
const DEMANDED: [u8; 3] = [0, 3, 6];

#[tokio::main(flavor = "current_thread", start_paused = true)]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let authentication = Authentication {
        chunks: DEMANDED.into_iter().collect(),
        required: true, // Peers without it are refused.
        ..Authentication::default()
    };
    let extensions = ExtensionsConfig { authentication: Some(authentication), ..ExtensionsConfig::default() };
    let config = AssociationConfig { extensions, ..AssociationConfig::default() };

    let network = Network::new(); // On a real network: `udp("0.0.0.0:9899".parse()?)` instead of `memory`.
    let here = Stack::builder().association(config.clone()).memory(&network, ["10.0.0.1".parse()?])?;
    let there = Stack::builder().association(config).memory(&network, ["10.0.0.2".parse()?])?;

    // Associations begin with these keys. Key 0, which is empty, would protect only against those who have not seen the
    // set-up.
    for stack in [&here, &there] {
        let key = KeyId(1);
        stack.change_key(&KeyChange::Set(key, SharedKey::new(b"only both sides know this")))?;
        stack.change_key(&KeyChange::Activate(key))?;
        stack.change_key(&KeyChange::Deactivate(KeyId(0)))?;
        stack.change_key(&KeyChange::Delete(KeyId(0)))?;
    }

    let listener = Listener::bind(&there, 7)?;
    let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
    let server = listener.accept().await?;
    client.send(b"authentic", SendInfo::default()).await?;
    let message = server.recv().await?.ok_or("end")?;
    let authenticated = client.status().ok_or("ended")?.extensions.authentication;
    println!("{:?} arrived, authenticated: {authenticated}", message.data);
    client.shutdown().await;
    Ok(())
}
