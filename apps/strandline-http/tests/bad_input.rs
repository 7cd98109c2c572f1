//! Requests that are malformed, oversized, ambiguous or never complete, and peers that misbehave: each gets a
//! clear status or a reset, and the other streams don't notice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::io::ErrorKind;
use std::time::Duration;

use strandline::memory::Network;
use strandline::{AssociationConfig, Ended, Ppid, SendInfo, StreamId};
use strandline_http::{HttpAssociation, ServeOptions, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::World;

/// Sends bytes on a stream of their own, and returns everything that comes back up to the end.
async fn exchange(http: &HttpAssociation, request: &[u8]) -> std::io::Result<String> {
    let mut stream = http.open().await.expect("a stream");
    stream.write_all(request).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8(answer).expect("text"))
}

/// Asserts that the association still answers.
async fn assert_others_answer(http: &HttpAssociation) {
    let answer = exchange(http, b"GET /fine HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
    assert!(answer.ends_with("this is /fine"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn malformed_requests_are_answered_with_400() {
    let world = World::new();
    let http = world.client(10).await;
    let requests: [&[u8]; 12] = [
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"GET / HTTP/1.1\r\nHost: a\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/3.9\r\n\r\n",
        b"GET /a b c HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: \0\r\n\r\n",
        b"GET / HTTP/1.1\rHost: a\r\r",
    ];
    for request in requests {
        let answer = exchange(&http, request).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{}: {answer}", request.escape_ascii());
    }
    assert_others_answer(&http).await;
}

#[tokio::test(start_paused = true)]
async fn ambiguous_lengths_are_rejected() {
    let world = World::new();
    let http = world.client(10).await;
    let requests: [&[u8]; 9] = [
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\ncontent-length : 3\r\n\r\n0\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"POST /echo HTTP/1.1\r\nContent-Length: 3, 4\r\n\r\nabcd",
        b"POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nContent-Length: +3\r\n\r\nabc",
        b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        b"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ];
    for request in requests {
        let answer = exchange(&http, request).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{}: {answer}", request.escape_ascii());
    }
    assert_others_answer(&http).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_smuggled_behind_a_chunked_body() {
    let world = World::new();
    let http = world.client(10).await;
    let request =
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n\
        0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    let answer = exchange(&http, request).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.matches("HTTP/1.1 ").count() == 1, "{answer}");
    assert_others_answer(&http).await;
}

/// hyper takes LF LF for a part of a trailer, and goes on to the next CRLF CRLF. The request behind that has both
/// lengths: it must not pass because it was taken for a body.
#[tokio::test(start_paused = true)]
async fn nothing_is_smuggled_behind_trailers() {
    let world = World::new();
    let http = world.client(10).await;
    let request = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
        0\r\nA: b\n\nPOST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\n\
        POST /smuggled HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let mut stream = http.open().await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    // The malformed body fails the connection.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(!answer.contains("200 OK") && !answer.contains("smuggled"), "{answer}");
    assert_others_answer(&http).await;
}

#[tokio::test(start_paused = true)]
async fn malformed_chunks_fail_their_connection_alone() {
    let world = World::new();
    let http = world.client(10).await;
    let head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for chunks in
        ["xyz\r\n", "5\nhello\n0\n\n", "fffffffffffffffff\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "0\r\nA: b\n\n"]
    {
        match exchange(&http, format!("{head}{chunks}").as_bytes()).await {
            Ok(answer) => assert!(!answer.starts_with("HTTP/1.1 200"), "{chunks:?}: {answer}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{chunks:?}"),
        }
    }
    assert_others_answer(&http).await;
}

#[tokio::test(start_paused = true)]
async fn oversized_heads_are_answered_with_431() {
    let world = World::new();
    let http = world.client(10).await;
    let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(300_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(1000));
    for request in [long, many] {
        let mut stream = http.open().await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        // The rest of the head isn't read, so the connection may end by a reset.
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(answer.starts_with(b"HTTP/1.1 431 "), "{}", answer.escape_ascii());
    }
    assert_others_answer(&http).await;
}

#[tokio::test(start_paused = true)]
async fn stalled_heads_are_reset() {
    let world = World::new();
    let http = world.client(10).await;
    let error = exchange(&http, b"GET / HTTP/1.1\r\nHos").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_others_answer(&http).await;
}

#[tokio::test(start_paused = true)]
async fn readers_that_take_nothing_are_reset() {
    let world = World::new();
    let http = world.client(10).await;
    let mut stalled = http.open().await.unwrap();
    stalled.write_all(b"GET /size/9000000 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    // Sleeps because the time-out must pass while nothing is read; the time is virtual.
    tokio::time::sleep(Duration::from_secs(300)).await;
    let error = stalled.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_others_answer(&http).await;
}

#[tokio::test(start_paused = true)]
async fn requests_cut_off_are_never_answered() {
    let world = World::new();
    let http = world.client(10).await;
    let mut cut = http.open().await.unwrap();
    cut.write_all(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf").await.unwrap();
    cut.shutdown().await.unwrap();
    let mut answer = Vec::new();
    let result = cut.read_to_end(&mut answer).await;
    assert!(result.is_err() || !answer.starts_with(b"HTTP/1.1 200"), "{}", answer.escape_ascii());
    assert_others_answer(&http).await;
}

#[tokio::test(start_paused = true)]
async fn streams_by_the_thousand_are_limited() {
    let mut options = ServeOptions::default();
    options.settings = Settings::default().connections_max(100);
    let world = World::on(&Network::new(), options);
    let http = world.client(4000).await;
    let mut waiting = Vec::new();
    for _ in 0..3000 {
        let mut stream = http.open().await.unwrap();
        stream.write_all(b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        waiting.push(stream);
    }
    let mut reset = 0;
    for mut stream in waiting.split_off(100) {
        assert_eq!(stream.read_u8().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        reset += 1;
    }
    assert_eq!(reset, 2900);
    drop(waiting);
    // Until the server has learned of the resets it has no room for another connection.
    let room = async {
        while exchange(&http, b"GET / HTTP/1.0\r\n\r\n").await.is_err() {}
        assert_others_answer(&http).await;
    };
    tokio::time::timeout(Duration::from_secs(60), room)
        .await
        .expect("the connections that were reset make room");
}

#[tokio::test(start_paused = true)]
async fn violations_abort_the_association() {
    let world = World::new();
    let messages: [(u32, &[u8], bool); 3] = [
        (0x5348_0194, b"no control", false),
        (0, b"GET / HTTP/1.1\r\n\r\n", true),
        (0x5348_0194, &[9; 16], false),
    ];
    for (ppid, data, is_unordered) in messages {
        let association = world.associate(10).await;
        let info = SendInfo::on(StreamId(1)).ppid(Ppid(ppid));
        association.send(data, if is_unordered { info.unordered() } else { info }).await.unwrap();
        assert!(matches!(association.closed().await, Ended::PeerAborted { .. }), "{ppid:#x}");
    }
    assert_others_answer(&world.client(2).await).await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_ignores_credit_is_bounded() {
    let mut options = ServeOptions::default();
    options.settings = Settings::default().stream_window(4096).buffer_max(100_000);
    let world = World::on(&Network::new(), options);
    let config = AssociationConfig { send_buffer: Some(1 << 20), ..AssociationConfig::default() };
    let association = world.associate(10).await;
    association.control().configure(config).unwrap();
    // The server waits for something else before it reads the body.
    let head = b"POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n";
    let info = SendInfo::on(StreamId(1)).ppid(Ppid(0x5348_0114));
    association.send(head, info).await.unwrap();
    // More than all buffers together; without an end it would never let time pass if nothing stopped it.
    let flood = async {
        for _ in 0..10_000 {
            association.send(&[0; 10_000], info).await.unwrap();
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(50), flood).await.is_err(), "the window closes");
    assert_others_answer(&world.client(2).await).await;
}
