//! One request: a connection, the head of the response, and its body.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::{Request, Response};
use strandline_measure::now;

use super::failure::Failure;
use super::link::limited;
use super::pool::{Lane, Pool};
use super::requests::{Prepared, head_bytes};
use super::stats::{Ended, Reply};

/// Connections that a request tries, if those before were closed before it was sent.
const ATTEMPTS: usize = 3;

/// A request that is due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due<'a> {
    pub(super) prepared: &'a Prepared,
    pub(super) session: Option<u64>,
    /// Number of the request in its session or loop.
    pub(super) number: u64,
    pub(super) at: Instant,
}

/// Sends a request, receives the reply, and counts both.
pub(super) async fn exchange(pool: &Pool, due: Due<'_>) -> Result<Reply, Failure> {
    let mut bytes = 0;
    let result = attempts(pool, due.prepared, &mut bytes).await;
    pool.server().stats.on_ended(&Ended {
        session: due.session,
        request: due.number,
        url: &due.prepared.url,
        due: due.at,
        bytes,
        result: &result,
    });
    result
}

async fn attempts(pool: &Pool, prepared: &Prepared, bytes: &mut u64) -> Result<Reply, Failure> {
    let mut attempt = 1;
    loop {
        let mut lane = pool.acquire().await?;
        let begin = now();
        let result = match head(pool, &mut lane, prepared, attempt == 1).await {
            Ok(response) => body(pool, response, begin, bytes).await,
            Err(Unanswered::NotSent(_)) if attempt < ATTEMPTS => {
                pool.release(lane, false);
                attempt += 1;
                continue;
            }
            Err(Unanswered::NotSent(failure) | Unanswered::Failed(failure)) => Err(failure),
        };
        if result.is_ok() {
            lane.link.on_reply();
        }
        pool.release(lane, result.is_ok());
        return result;
    }
}

/// A request without a response.
enum Unanswered {
    /// The connection was closed before.
    NotSent(Failure),
    Failed(Failure),
}

/// Sends a request, and waits for the head of the response.
async fn head(
    pool: &Pool,
    lane: &mut Lane,
    prepared: &Prepared,
    counts: bool,
) -> Result<Response<Incoming>, Unanswered> {
    let link = std::sync::Arc::clone(&lane.link);
    let sending = lane.send(prepared.request());
    tokio::pin!(sending);
    // The request is on its way while an association is being set up, which has its own limit of time.
    let early = tokio::select! {
        biased;
        result = &mut sending => Some(result),
        _ = link.connected() => None,
    };
    link.connected().await.map_err(Unanswered::Failed)?;
    if counts {
        pool.server().stats.on_request(prepared.bytes);
    }
    let result = match early {
        Some(result) => Some(result),
        None => limited(pool.server().timeout, sending).await,
    };
    match result {
        Some(result) => result.map_err(|error| unanswered(&error)),
        None => Err(Unanswered::Failed(Failure::timeout())),
    }
}

fn unanswered(error: &TrySendError<Request<Empty<Bytes>>>) -> Unanswered {
    let failure = Failure::request(error.error());
    if error.message().is_some() { Unanswered::NotSent(failure) } else { Unanswered::Failed(failure) }
}

/// Receives the body of a response.
async fn body(
    pool: &Pool,
    response: Response<Incoming>,
    begin: Instant,
    bytes: &mut u64,
) -> Result<Reply, Failure> {
    let head = now();
    let (status, header_bytes) = (response.status().as_u16(), head_bytes(&response));
    let mut body = response.into_body();
    let receive = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Failure::request(&error))?;
            *bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
        }
        Ok(())
    };
    limited(pool.server().timeout, receive).await.unwrap_or(Err(Failure::timeout()))?;
    Ok(Reply {
        status,
        header_bytes,
        content_bytes: *bytes,
        response: since(begin, head),
        transfer: since(head, now()),
    })
}

fn since(begin: Instant, end: Instant) -> Duration {
    end.saturating_duration_since(begin)
}
