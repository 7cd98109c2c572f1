//! Two hosts on an in-memory network, a server, and clients.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use strandline::memory::Network;
use strandline::{AcceptError, Association, AssociationConfig, Listener, Peer, Stack};
use strandline_http::{HttpAssociation, ServeOptions, Settings, serve};
use tokio::sync::oneshot;

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub type Body = BoxBody<Bytes, BoxError>;

/// Two hosts, the second with a server on port 80.
pub struct World {
    pub here: Stack,
    pub stop: Option<oneshot::Sender<()>>,
    pub served: tokio::task::JoinHandle<Result<(), AcceptError>>,
}

pub fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed()
}

/// A body that fails after its first part has been sent.
fn failing() -> Body {
    let first = std::future::ready(Ok(Frame::data(Bytes::from_static(b"half"))));
    let second = async {
        tokio::task::yield_now().await;
        Err("the disk is gone".into())
    };
    BodyExt::boxed(StreamBody::new(stream::once(first).chain(stream::once(second))))
}

/// A body of which only the first part comes.
fn begun() -> Body {
    let first = std::future::ready(Ok(Frame::data(Bytes::from_static(b"half"))));
    BodyExt::boxed(StreamBody::new(stream::once(first).chain(stream::pending())))
}

/// Answers by path: `/slow` after five seconds, `/hello`, `/size/N`, `/echo`, `/fail` in mid-body, `/begun`
/// without an end, `/never`.
pub async fn answer(request: Request<Incoming>) -> Result<Response<Body>, BoxError> {
    let path = request.uri().path().to_owned();
    let body = match path.as_str() {
        "/fail" => failing(),
        "/begun" => begun(),
        "/never" => std::future::pending().await,
        "/slow" => {
            // Sleeps because the answer is to take time, which is virtual.
            tokio::time::sleep(Duration::from_secs(5)).await;
            full("slow")
        }
        "/echo" => full(request.into_body().collect().await?.to_bytes()),
        _ => match path.strip_prefix("/size/") {
            Some(size) => full(vec![b'x'; size.parse()?]),
            None => full(format!("this is {path}")),
        },
    };
    Ok(Response::new(body))
}

impl World {
    pub fn new() -> Self {
        Self::on(&Network::builder().delay(Duration::from_millis(20)).build(), ServeOptions::default())
    }

    pub fn on(network: &Network, options: ServeOptions) -> Self {
        let stack = |last| Stack::builder().memory(network, [[10, 0, 0, last].into()]).unwrap();
        let (here, there) = (stack(1), stack(2));
        let listener = Listener::bind(&there, 80).unwrap();
        let (stop, stopped) = oneshot::channel();
        let stopped = async move { drop(stopped.await) };
        let served = tokio::spawn(serve(listener, service_fn(answer), options, stopped));
        Self { here, stop: Some(stop), served }
    }

    /// Sets up an association with `streams` streams.
    pub async fn associate(&self, streams: u16) -> Association {
        let config = AssociationConfig {
            outbound_streams: streams,
            inbound_streams_max: streams,
            ..AssociationConfig::default()
        };
        let peer = Peer::new([10, 0, 0, 2], 80);
        let association = Association::start(&self.here, peer, 0, Some(Arc::new(config))).unwrap();
        association.established().await.unwrap();
        association
    }

    pub async fn client(&self, streams: u16) -> HttpAssociation {
        HttpAssociation::client(self.associate(streams).await, Settings::default())
    }
}
