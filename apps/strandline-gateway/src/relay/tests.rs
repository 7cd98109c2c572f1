use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use strandline::TakenBytes;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use super::{READ_MAX, at_once, take, write};

/// What a reader that has stopped leaves in a connection counts as unread, until it goes on.
#[tokio::test]
async fn what_waits_for_a_reader_is_counted() {
    const LEN: usize = 16 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut reader = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (tcp, _) = listener.accept().await.unwrap();
    let unread = TakenBytes::new(Arc::default(), 1 << 30);
    let mut queue = VecDeque::from([Bytes::from(vec![7; LEN])]);
    let mut writing = pin!(write(&tcp, &mut queue, &unread));
    assert!(at_once(writing.as_mut()).await.is_none(), "the kernel has no room for all of it");
    assert!(unread.bytes() > 0);
    let mut data = vec![0; LEN];
    let (written, read) = tokio::join!(writing, reader.read_exact(&mut data));
    assert!(written.is_ok() && read.is_ok());
    assert_eq!(unread.bytes(), 0);
}

/// A short message does not keep the buffer, in which more is read; a long one is not copied.
#[test]
fn short_messages_hold_only_themselves() {
    for (len, is_copied) in [(300, true), (32 << 10, false)] {
        let mut buffer = BytesMut::with_capacity(READ_MAX);
        buffer.extend_from_slice(&vec![7; len]);
        let begin = buffer.as_ptr();
        let message = take(&mut buffer);
        assert_eq!((message.len(), buffer.len()), (len, 0));
        assert_eq!((message.is_unique(), message.as_ptr() == begin), (is_copied, !is_copied), "{len}");
    }
}
