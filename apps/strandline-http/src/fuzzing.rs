//! Fuzz targets: functions of any bytes that panic if this crate breaks a promise.

use std::task::{Context, Waker};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::control::{Control, Kind};
use crate::framing::Framing;
use crate::front::alt_svc::{self, Announced};
use crate::streams::{Arrived, ConnectionId, Reading, Role, Settings, Table};

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
            return table.on_message(arrived(ppid, &vec![0; amount % 5000 + 1])).map_err(drop);
        }
        3 => {
            let kind = match label % 3 {
                0 => Kind::End,
                1 => Kind::Reset,
                _ => Kind::Credit(amount as u64),
            };
            let control = Control { kind, number: number.into() }.to_bytes();
            return table.on_message(arrived(settings.label(true).ppid(), &control)).map_err(drop);
        }
        4 => {
            if let Some((stream, control)) = table.pop_control() {
                table.on_control_sent(stream, control);
            }
        }
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

/// Bytes that a client sends on a stream, for the parser behind it: every answer is a response.
pub fn http_request(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let Ok(runtime) = runtime else { return };
    let answers = runtime.block_on(async {
        let (mut client, server) = tokio::io::duplex(bytes.len().max(1));
        let answer =
            |_: Request<Incoming>| async { Ok::<_, hyper::Error>(Response::new(Empty::<Bytes>::new())) };
        let connection = http1::Builder::new().serve_connection(TokioIo::new(server), service_fn(answer));
        let talk = async {
            let mut answers = Vec::new();
            // A server that has rejected a request reads no more of them.
            let _ = client.write_all(bytes).await;
            let _ = client.shutdown().await;
            let _ = client.read_to_end(&mut answers).await;
            answers
        };
        tokio::join!(connection, talk).1
    });
    assert!(answers.is_empty() || answers.starts_with(b"HTTP/1."), "{}", answers.escape_ascii());
}

/// Bytes that a client sends, before hyper reads them: what is refused doesn't depend on how they arrive.
pub fn http_framing(bytes: &[u8]) {
    let refused = |sizes: &mut dyn Iterator<Item = usize>| {
        let mut framing = Framing::new();
        let (mut rest, mut before) = (bytes, 0);
        while !rest.is_empty() {
            let size = sizes.next().unwrap_or(1).clamp(1, rest.len());
            let (piece, later) = rest.split_at(size);
            if let Some(last) = framing.feed(piece) {
                assert!(last < piece.len(), "an offset within the piece");
                return Some(before + last);
            }
            before += piece.len();
            rest = later;
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

#[cfg(test)]
mod tests;
