use std::pin::pin;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::*;
use crate::exchange::Exchange;
use crate::guard::Guard;

fn hints() -> HeaderMap {
    HeaderMap::from_iter([(hyper::header::LINK, "</style.css>; rel=preload".parse().unwrap())])
}

#[tokio::test]
async fn interim_responses_go_before_the_final_one() {
    let (mut client, server) = duplex(1000);
    let interim = Interim::default();
    let mut server = Guard::new(server, Exchange::default(), interim.clone(), Box::new(|_| ()));
    interim.push(StatusCode::EARLY_HINTS, &hints());
    server.write_all(b"final").await.unwrap();
    // A response is being written.
    interim.push(StatusCode::EARLY_HINTS, &hints());
    server.flush().await.unwrap();
    interim.push(StatusCode::PROCESSING, &HeaderMap::new());
    server.flush().await.unwrap();
    drop(server);
    let mut text = String::new();
    client.read_to_string(&mut text).await.unwrap();
    let wanted = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\nfinalHTTP/1.1 102 Processing\r\n\r\n";
    assert_eq!(text, wanted);
}

#[tokio::test]
async fn a_waiting_connection_is_woken() {
    let (mut client, server) = duplex(1000);
    let interim = Interim::default();
    let mut server = Guard::new(server, Exchange::default(), interim.clone(), Box::new(|_| ()));
    let task = tokio::spawn(std::future::poll_fn(move |cx| {
        ready!(pin!(&mut server).poll_flush(cx)).unwrap();
        Poll::<()>::Pending
    }));
    tokio::task::yield_now().await;
    interim.push(StatusCode::EARLY_HINTS, &hints());
    assert_eq!(client.read_u8().await.unwrap(), b'H');
    task.abort();
}

#[test]
fn what_waits_is_bounded() {
    let interim = Interim::default();
    for _ in 0..10_000 {
        interim.push(StatusCode::EARLY_HINTS, &hints());
    }
    assert!(interim.lock().queued.len() <= QUEUED_MAX);
}
