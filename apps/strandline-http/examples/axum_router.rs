//! A router of axum over SCTP: it is served on the streams of associations as it would be on TCP connections.
//!
//! Run with `cargo run -p strandline-http --example axum_router`. The network is in memory; the comments say what
//! takes its place on a real one.

use axum::Router;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use hyper_util::service::TowerToHyperService;
use strandline::memory::Network;
use strandline::{Listener, Stack};
use strandline_http::{Connector, ServeOptions, StreamInfo, serve};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A handler with a parameter of the path, the router's state, and the stream that the request came on.
async fn greet(
    Path(name): Path<String>,
    State(greeting): State<&'static str>,
    Extension(from): Extension<StreamInfo>,
) -> String {
    format!("{greeting}, {name}, on stream {}", from.stream)
}

/// A handler that takes the whole body.
async fn count(body: Bytes) -> Result<String, StatusCode> {
    if body.is_empty() { Err(StatusCode::BAD_REQUEST) } else { Ok(body.len().to_string()) }
}

fn router() -> Router {
    Router::new().route("/greet/{name}", get(greet)).route("/count", post(count)).with_state("Hello")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let network = Network::new(); // instead: Stack::builder().udp("0.0.0.0:9899".parse()?)?
    let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;

    let listener = Listener::bind(&there, 80)?;
    let service = TowerToHyperService::new(router());
    tokio::spawn(serve(listener, service, ServeOptions::default(), std::future::pending()));

    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build(Connector::new(here));
    let greeting = client.get("http+sctp://10.0.0.2/greet/Ada".parse()?).await?;
    assert_eq!(greeting.into_body().collect().await?.to_bytes(), "Hello, Ada, on stream 0");

    let upload = Request::post("http+sctp://10.0.0.2/count").body(Full::from(vec![7; 300_000]))?;
    assert_eq!(client.request(upload).await?.into_body().collect().await?.to_bytes(), "300000");

    for (path, status) in [("count", StatusCode::METHOD_NOT_ALLOWED), ("none", StatusCode::NOT_FOUND)] {
        assert_eq!(client.get(format!("http+sctp://10.0.0.2/{path}").parse()?).await?.status(), status);
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
