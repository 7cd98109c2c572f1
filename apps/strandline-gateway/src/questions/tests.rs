use std::future::{Future, poll_fn};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use strandline_ipc::receive_note;

use super::{Questions, answer};
use crate::program_sockets::Sockets;

/// The listeners of a new process serve before it knows its predecessors.
#[tokio::test]
async fn questions_wait_for_the_processes() {
    let (questions, sockets) = (Questions::default(), Arc::new(Sockets::default()));
    let key = ([127, 0, 0, 1].into(), 7);
    let _entry = sockets.begin(key, "192.0.2.7:443".parse().unwrap());
    let (before, own) = UnixStream::pair().unwrap();
    own.set_nonblocking(true).unwrap();
    let mut query = pin!(questions.query(key));
    assert!(poll_fn(|cx| Poll::Ready(query.as_mut().poll(cx).is_pending())).await, "answered without them");
    let answering = async {
        questions.add(1, Arc::new(own));
        questions.begin();
        let note = tokio::task::spawn_blocking(move || receive_note(&before));
        let (_, socket) = note.await.unwrap().unwrap().unwrap();
        answer(socket.unwrap(), &sockets).await.unwrap();
    };
    let (answered, ()) = tokio::join!(query, answering);
    assert_eq!(answered, Some(sockets.answer(key)));
}
