//! Fuzz targets: functions of any bytes that panic if this crate breaks a promise.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Version};
use strandline::memory::Network;
use strandline::{Association, Listener, Peer, Stack};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::control::{Control, Kind};
use crate::files::{FileBody, status};
use crate::framing::{Framing, Stop};
use crate::front::alt_svc::{self, Announced};
use crate::front::log::{LoggedBody, Sender};
use crate::front::{Handler, over_sctp};
use crate::interim::Interim;
use crate::server::{ServeOptions, serve};
use crate::streams::{Arrived, ConnectionId, HttpAssociation, Reading, Role, Settings, Table};

/// Commands and messages, six bytes each, for the connections of a client and of a server.
pub fn http_streams(bytes: &[u8]) {
    let settings = Settings::default().stream_window(4096).buffer_max(16 << 10).connections_max(4);
    for role in [Role::Client, Role::Server] {
        let mut table = Table::new(role, settings.clone());
        if role == Role::Client {
            table.set_streams(4);
        }
        let mut open = Vec::new();
        for command in bytes.chunks_exact(6) {
            let &[what, stream, number, high, low, label] = command else { continue };
            let amount = usize::from(u16::from_be_bytes([high, low]));
            if step(&mut table, &mut open, (what, stream % 8, number % 4, amount, label), &settings).is_err()
            {
                // The association is aborted.
                table.on_ended(strandline::Ended::Aborted);
                break;
            }
        }
        for id in open {
            table.drop_handle(id);
        }
        table.on_ended(strandline::Ended::TimedOut);
        while let Some((id, _)) = table.accept() {
            table.drop_handle(id);
        }
        assert!(!table.is_full(), "dropped connections hold nothing");
        assert!(!table.is_busy(), "dropped connections are not read");
    }
}

fn step(
    table: &mut Table,
    open: &mut Vec<ConnectionId>,
    (what, stream, number, amount, label): (u8, u8, u8, usize, u8),
    settings: &Settings,
) -> Result<(), ()> {
    let context = &mut Context::from_waker(Waker::noop());
    let some = open.get(usize::from(stream)).copied();
    let arrived = |ppid, data: &[u8]| Arrived {
        stream: stream.into(),
        ppid,
        is_unordered: label == 7,
        is_whole: label != 8,
        data: Bytes::copy_from_slice(data),
    };
    match what % 8 {
        0 => open.extend(table.open().map(|(id, _)| id)),
        1 => open.extend(table.accept().map(|(id, _)| id)),
        2 => {
            let ppid = if label == 9 { 0 } else { settings.label(false).ppid() };
            return table
                .on_message(arrived(ppid, &vec![0; amount % 5000 + 1]), Duration::ZERO)
                .map_err(drop);
        }
        3 => {
            let kind = match label % 3 {
                0 => Kind::End,
                1 => Kind::Reset,
                _ => Kind::Credit(amount as u64),
            };
            let control = Control { kind, number: number.into() }.to_bytes();
            let control = arrived(settings.label(true).ppid(), &control);
            return table.on_message(control, Duration::ZERO).map_err(drop);
        }
        4 => {
            if let Some((stream, control)) = table.pop_control() {
                table.on_control_sent(stream, control);
            }
        }
        5 if label == 10 => table.give_up_stalled(Duration::ZERO),
        5 => {
            if let Some(Reading::Data(data)) = some.map(|id| table.read(id, amount, context)) {
                assert!(data.len() <= amount);
            }
        }
        6 => {
            if let Some(id) = some {
                if label % 2 == 0 {
                    table.end(id);
                }
                let _ = table.room(id, context);
                table.on_sent(id, amount);
            }
        }
        _ => {
            if usize::from(stream) < open.len() {
                table.drop_handle(open.swap_remove(stream.into()));
            }
        }
    }
    Ok(())
}

/// Bytes that a client sends on a stream, to a server of this crate: every answer is a response, and the association
/// goes on. The first byte of each message is its size.
pub fn http_request(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let Ok(runtime) = runtime else { return };
    let (answer, fine) = runtime.block_on(async {
        let http = fuzzed_server().await;
        let answer = talk(&http, bytes).await;
        (answer, talk(&http, FINE).await)
    });
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", answer.escape_ascii());
    assert!(
        fine.starts_with(b"HTTP/1.1 200 OK\r\n") && fine.ends_with(b"\r\n\r\n0"),
        "{}",
        fine.escape_ascii()
    );
}

/// A request that is answered by the size of its body.
const FINE: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Starts a server on an in-memory network, and returns an association with it.
#[allow(clippy::expect_used, reason = "a failure is a finding")]
async fn fuzzed_server() -> HttpAssociation {
    let network = Network::new();
    let stack = |last| Stack::builder().memory(&network, [[10, 0, 0, last].into()]).expect("an address");
    let (here, there) = (stack(1), stack(2));
    let listener = Listener::bind(&there, 80).expect("a port");
    let handler = over_sctp(Arc::new(Fuzzed));
    tokio::spawn(serve(listener, handler, ServeOptions::default(), std::future::pending()));
    let association =
        Association::connect(&here, Peer::new([10, 0, 0, 2], 80)).await.expect("an association");
    HttpAssociation::client(association, Settings::default())
}

/// Sends bytes in messages on a stream of their own, and returns what comes back.
#[allow(clippy::expect_used, reason = "a failure is a finding")]
async fn talk(http: &HttpAssociation, bytes: &[u8]) -> Vec<u8> {
    let mut stream = http.open().await.expect("the association goes on");
    let mut rest = bytes;
    while let Some(size) = rest.first() {
        let (message, later) = rest.split_at(usize::from(*size).clamp(1, rest.len()));
        // A server that has refused a request reads no more of them.
        if stream.write_all(message).await.is_err() {
            break;
        }
        rest = later;
    }
    let mut answer = Vec::new();
    // hyper takes an end for that of an interest in the response, so it follows only if the server wants more.
    // Errors are resets.
    if tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.is_err() {
        let _ = stream.shutdown().await;
        let _ = stream.read_to_end(&mut answer).await;
    }
    answer
}

/// Longer than the server's time-outs; it is virtual.
const PATIENCE: Duration = Duration::from_secs(100);

/// Answers by the size of the request's body. TRACE passes an interim response.
struct Fuzzed;

impl Handler for Fuzzed {
    type Body = LoggedBody<FileBody>;

    async fn answer(self: Arc<Self>, mut request: Request<Incoming>, _: Sender) -> Response<Self::Body> {
        if request.method() == Method::TRACE
            && let Some(interim) = request.extensions_mut().remove::<Interim>()
        {
            interim.push(StatusCode::EARLY_HINTS, request.headers());
        }
        let method = request.method().clone();
        let mut size = 0;
        while let Some(frame) = request.body_mut().frame().await {
            match frame {
                Ok(frame) => size += frame.data_ref().map_or(0, Bytes::len),
                Err(_) => return LoggedBody::respond(status(StatusCode::BAD_REQUEST), &method, None),
            }
        }
        LoggedBody::respond(Response::new(FileBody::text(size.to_string())), &method, None)
    }

    fn refused(&self, _: StatusCode, _: Version, _: Sender) {}
}

/// Bytes that a client sends, before hyper reads them: what is refused doesn't depend on how they arrive.
pub fn http_framing(bytes: &[u8]) {
    let refused = |sizes: &mut dyn Iterator<Item = usize>| {
        let mut framing = Framing::new();
        let (mut rest, mut before) = (bytes, 0);
        while !rest.is_empty() {
            let size = sizes.next().unwrap_or(1).clamp(1, rest.len());
            let (piece, later) = rest.split_at(size);
            match framing.feed(piece) {
                Some(stop) => {
                    let (Stop::Head(at) | Stop::Body(at) | Stop::Undecided(at)) = stop;
                    assert!(at < piece.len(), "an offset within the piece");
                    if !matches!(stop, Stop::Undecided(_)) {
                        return Some((before + at, matches!(stop, Stop::Head(_))));
                    }
                    // No tunnel: these bytes are the next request.
                    framing.no_tunnel();
                    (before, rest) = (before + at, rest.get(at..).unwrap_or_default());
                }
                None => (before, rest) = (before + piece.len(), later),
            }
        }
        None
    };
    let whole = refused(&mut std::iter::once(bytes.len()));
    assert_eq!(whole, refused(&mut std::iter::repeat(1)), "byte by byte");
    let mut sizes = bytes.iter().map(|byte| usize::from(*byte) / 8);
    assert_eq!(whole, refused(&mut sizes), "in pieces");
}

/// What servers announce, targets that an option allows, and heads that pass a proxy.
pub fn http_proxy(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(Announced::Sctp { port, udp_port, .. }) = alt_svc::parse(&text) {
        assert!(port != 0 && udp_port != Some(0), "no port is 0");
        assert!(alt_svc::announce(port, udp_port).is_some(), "it can be announced again");
    }
    crate::proxy::fuzz(bytes);
}

/// Requests for files, and responses with parts of them: a path, and on further lines headers.
pub fn http_files(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let path = String::from_utf8_lossy(lines.next().unwrap_or_default());
    let mut headers = HeaderMap::new();
    for line in lines.take(100) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else { continue };
        let value = HeaderValue::from_bytes(value.trim_ascii());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), value) {
            headers.append(name, value);
        }
    }
    crate::files::fuzz(&path, &headers);
    crate::get::fuzz_range(&headers);
}

/// HTML, style sheets and lists of images, as `http get --page` searches them. The first byte is the kind.
pub fn http_page(bytes: &[u8]) {
    crate::get::fuzz_page(bytes);
}

#[cfg(test)]
mod tests;
