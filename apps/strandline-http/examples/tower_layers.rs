//! A stack of tower's layers over SCTP: a log, a time-out and a limit around a service.
//!
//! Run with `cargo run -p strandline-http --example tower_layers`.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use hyper_util::service::TowerToHyperService;
use strandline::memory::Network;
use strandline::{Listener, Stack};
use strandline_http::{Connector, ServeOptions, serve};
use tower::ServiceBuilder;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The path /slow takes a minute.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() == "/slow" {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    Ok(Response::new(Full::from(format!("this is {}", request.uri().path()))))
}

/// The clock stands still until nothing is left to do but to wait, so that the time-out takes no time.
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Error> {
    let network = Network::new();
    let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;

    let requests = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&requests);
    let service = ServiceBuilder::new()
        .layer(TraceLayer::new_for_http().on_request(move |_: &Request<_>, _: &tracing::Span| {
            counted.fetch_add(1, Ordering::Relaxed);
        }))
        .layer(TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, Duration::from_secs(5)))
        .concurrency_limit(100)
        .service_fn(answer);
    let listener = Listener::bind(&there, 80)?;
    let service = TowerToHyperService::new(service);
    tokio::spawn(serve(listener, service, ServeOptions::default(), std::future::pending()));

    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build(Connector::new(here));
    let (slow, quick) = tokio::try_join!(
        client.get("http+sctp://10.0.0.2/slow".parse()?),
        client.get("http+sctp://10.0.0.2/quick".parse()?),
    )?;
    assert_eq!(slow.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(quick.into_body().collect().await?.to_bytes(), "this is /quick");
    assert_eq!(requests.load(Ordering::Relaxed), 2);
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
