//! hyper-util's client, with layers of tower around it, over SCTP: requests to one host share an association, and each
//! takes a stream that is free.
//!
//! reqwest can't do this: it has no public way to replace its connector. `hyper_util::client::legacy::Client` is the
//! client that reqwest itself is built on, and takes any connector.
//!
//! Run with `cargo run -p strandline-http --example pooled_client`.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use strandline::memory::Network;
use strandline::{Ended, Listener, Stack};
use strandline_http::{Connector, ServeOptions, StreamInfo, serve};
use tower::{Service, ServiceBuilder, ServiceExt};
use tower_http::trace::TraceLayer;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Answers with the number of the stream.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Error> {
    let from = request.extensions().get::<StreamInfo>().ok_or("no stream")?;
    Ok(Response::new(Full::from(from.stream.to_string())))
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Error> {
    let network = Network::builder().delay(Duration::from_millis(30)).build();
    let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
    let listener = Listener::bind(&there, 80)?;
    tokio::spawn(serve(listener, service_fn(answer), ServeOptions::default(), std::future::pending()));

    let connector = Connector::new(here);
    // The pool keeps streams without a request for this long. The association itself stays as long as the connector.
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(10))
        .build::<_, Full<Bytes>>(connector.clone());
    let mut client = ServiceBuilder::new().layer(TraceLayer::new_for_http()).service(client);

    // Ten requests at once take several streams (those whose turn comes late take one that is free again), and ten one
    // after another take none that is new.
    let at_once = (0..10).map(|_| {
        let mut client = client.clone();
        tokio::spawn(async move { get(&mut client).await })
    });
    let mut streams = Vec::new();
    for request in at_once.collect::<Vec<_>>() {
        streams.push(request.await??);
    }
    streams.sort_unstable();
    streams.dedup();
    assert!(streams.len() > 5, "{streams:?}");
    for _ in 0..10 {
        assert!(streams.contains(&get(&mut client).await?));
    }

    // Without client and connector the association is shut down.
    let association = connector.association("10.0.0.2", 80).await?.association().clone();
    drop((client, connector));
    assert_eq!(association.closed().await, Ended::ShutDown);
    Ok(())
}

/// Sends a request, and returns the stream that it took.
async fn get<S, B>(client: &mut S) -> Result<u16, Error>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error: Into<Error>>,
    B: hyper::body::Body<Error: Into<Error>>,
{
    let request = Request::get("http+sctp://10.0.0.2/").body(Full::default())?;
    let response = client.ready().await.map_err(Into::into)?.call(request).await.map_err(Into::into)?;
    let body = response.into_body().collect().await.map_err(Into::into)?.to_bytes();
    Ok(std::str::from_utf8(&body)?.parse()?)
}

#[test]
fn it_runs() {
    main().unwrap();
}
