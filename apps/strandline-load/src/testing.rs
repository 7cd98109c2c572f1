//! What tests of several servers share.
#![allow(clippy::unwrap_used, reason = "tests stop at the first error")]

use std::time::Duration;

use strandline::{Association, SendInfo, StreamId};

/// Sends messages to an echo server over `silent`, which reads nothing, until its own buffers and the
/// server's are full. Returns how many were sent. Asserts that the server bounds what it keeps, and that it
/// answers `other` at once all the while.
pub(crate) async fn fill_while_another_echoes(
    silent: &Association,
    other: &Association,
    message: impl Fn(u32) -> Vec<u8>,
) -> u32 {
    let mut sent = 0;
    while tokio::time::timeout(Duration::from_secs(5), silent.send(&message(sent), SendInfo::default()))
        .await
        .is_ok()
    {
        sent += 1;
        assert!(sent < 10_000, "nothing bounds what the server keeps");
        let began = tokio::time::Instant::now();
        other.send(b"hello", SendInfo::on(StreamId(1))).await.unwrap();
        assert_eq!(other.recv().await.unwrap().unwrap().data, "hello");
        assert!(began.elapsed() < Duration::from_millis(10), "in virtual time, on a network without delay");
    }
    sent
}
