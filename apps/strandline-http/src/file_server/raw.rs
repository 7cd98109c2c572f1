//! The server on raw IP, beside UDP.

use bytes::Bytes;
use clap::Parser;
use http_body_util::{BodyExt, Empty};
use hyper::Uri;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use strandline::Stack;

use super::bind;
use super::testing::{Program, Running};
use crate::client::Connector;
use crate::files::testing::Folder;
use crate::front::Shards;

/// Raw IP needs CAP_NET_RAW: without it the server doesn't begin.
#[tokio::test]
async fn raw_ip_is_served_or_refused() {
    let Ok(stack) = Stack::builder().raw([127, 0, 0, 2]) else {
        let folder = Folder::new("raw");
        let own = ["serve", folder.path().to_str().unwrap(), "--raw", "127.0.0.1", "--listen", "127.0.0.1:0"];
        let args =
            Program::try_parse_from(own.iter().chain(&["--encapsulation", "127.0.0.1:0"])).unwrap().args;
        assert!(bind(&args, Shards::current()).await.is_err());
        return;
    };
    let server = Running::start(&["--raw", "127.0.0.1"]).await;
    assert_eq!(server.listening.raw.as_deref(), Some("127.0.0.1"));
    let udp = Stack::builder().udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let uri: Uri = format!("http://127.0.0.1:{}/", server.sctp_port()).parse().unwrap();
    for connector in [Connector::new(stack), Connector::new(udp).encapsulation_port(server.udp_port())] {
        let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
        let response = client.get(uri.clone()).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "<h1>hello</h1>");
    }
    assert_eq!(server.end().await.lines().count(), 2);
}
