//! Messages on dynamic streams with limits, contexts, and out of order.

use strandline::{FailureCause, Notification, RecvStream, Reliability, SendStream};

use super::*;
use crate::common::{all_arrived, with_switch};

const ONCE: Reliability = Reliability::retransmissions(0);

/// An association whose network can be switched off, with a stream from the client to the server, of which "first" has
/// arrived.
struct Scene {
    client: Association,
    _server: Association,
    dead: Arc<std::sync::atomic::AtomicBool>,
    send: SendStream,
    /// Kept so that the directions do not end.
    _back: (RecvStream, SendStream),
    reader: RecvStream,
}

impl Scene {
    async fn new(interleaving: bool) -> Self {
        let (network, dead) = with_switch();
        let extensions = ExtensionsConfig { interleaving, ..ExtensionsConfig::default() };
        let config = AssociationConfig { extensions, ..AssociationConfig::default() };
        let (client, server) = streams_over(network, &config).await;
        assert_eq!(client.status().unwrap().extensions.interleaving, interleaving);
        let (answers, mut send) = client.open_stream().await.unwrap().into_split();
        send.send(Bytes::from_static(b"first")).await.unwrap();
        let (reader, back) = server.accept_stream().await.unwrap().into_split();
        all_arrived(&client).await;
        Self { client, _server: server, dead, send, _back: (answers, back), reader }
    }

    /// Sends a message into a dead network, and waits until it is given up.
    async fn lose(&mut self, info: SendInfo) {
        let given_up = || {
            let all = self.client.control().abandoned().unwrap().all;
            all.lifetime.sent + all.retransmissions.sent
        };
        let before = given_up();
        self.dead.store(true, Ordering::Relaxed);
        self.send.send_with(Bytes::from_static(b"lost"), info).await.unwrap();
        until("it is given up", || given_up() > before).await;
        self.dead.store(false, Ordering::Relaxed);
    }

    async fn read(&mut self) -> Result<Option<String>, RecvError> {
        let message =
            timeout(Duration::from_secs(60), self.reader.recv()).await.expect("something arrives")?;
        Ok(message.map(|message| String::from_utf8(message.data.to_vec()).unwrap()))
    }
}

/// The reader is told where a message is missing, goes on behind it, and gets a clean end. The writer is told
/// which one it was.
#[tokio::test(start_paused = true)]
async fn a_stream_ends_cleanly_behind_an_abandoned_message() {
    for interleaving in [false, true] {
        let mut scene = Scene::new(interleaving).await;
        let mut events = scene.client.events();
        let info = SendInfo::on(StreamId(77)).ppid(strandline::Ppid(5)).context(1234).reliability(ONCE);
        scene.lose(info).await;
        scene.send.send(Bytes::from_static(b"last")).await.unwrap();
        scene.send.finish().unwrap();
        assert_eq!(scene.read().await, Ok(Some("first".into())));
        assert_eq!(scene.read().await, Err(RecvError::Abandoned));
        assert_eq!(scene.read().await, Ok(Some("last".into())));
        assert_eq!(scene.read().await, Ok(None), "the end is clean");
        scene.send.finished().await.unwrap();
        let failed = loop {
            if let Notification::SendFailed(message) = events.next().await.unwrap() {
                break message;
            }
        };
        assert_eq!((failed.info.context, failed.info.ppid.0, &failed.data[..]), (1234, 5, &b"lost"[..]));
        assert_eq!(
            failed.info.stream,
            scene.send.id(),
            "it went on this stream, whatever its information says"
        );
        assert_eq!(failed.cause, FailureCause::RetransmissionsExhausted);
    }
}

/// Without a message behind it, the reader can't tell an abandoned message from a reset.
#[tokio::test(start_paused = true)]
async fn an_abandoned_last_message_leaves_the_stream_unfinished() {
    for interleaving in [false, true] {
        let mut scene = Scene::new(interleaving).await;
        scene.lose(SendInfo::default().reliability(Reliability::lifetime(Duration::from_millis(50)))).await;
        scene.send.finish().unwrap();
        assert_eq!(scene.read().await, Ok(Some("first".into())));
        assert_eq!(scene.read().await, Err(RecvError::Unfinished));
        scene.send.finished().await.unwrap();
    }
}

/// One that is given up leaves no gap in the order of the others.
#[tokio::test(start_paused = true)]
async fn unordered_messages_leave_no_gap() {
    for interleaving in [false, true] {
        let mut scene = Scene::new(interleaving).await;
        scene.lose(SendInfo::default().reliability(ONCE).unordered()).await;
        scene.send.finish().unwrap();
        assert_eq!(scene.read().await, Ok(Some("first".into())));
        assert_eq!(scene.read().await, Ok(None));
    }
}

/// A message out of order passes one that is lost.
#[tokio::test(start_paused = true)]
async fn unordered_messages_pass_lost_ones() {
    for interleaving in [false, true] {
        let mut scene = Scene::new(interleaving).await;
        assert_eq!(scene.read().await, Ok(Some("first".into())));
        scene.dead.store(true, Ordering::Relaxed);
        let sent = scene.client.status().unwrap().stats.packets_sent;
        scene.send.send(Bytes::from_static(b"late")).await.unwrap();
        until("it is sent", || scene.client.status().unwrap().stats.packets_sent > sent).await;
        scene.dead.store(false, Ordering::Relaxed);
        scene.send.send_with(Bytes::from_static(b"early"), SendInfo::default().unordered()).await.unwrap();
        scene.send.finish().unwrap();
        assert_eq!(scene.read().await, Ok(Some("early".into())));
        assert_eq!(scene.read().await, Ok(Some("late".into())));
        assert_eq!(scene.read().await, Ok(None));
    }
}

/// Streams with fixed numbers take the same information.
#[tokio::test(start_paused = true)]
async fn fixed_streams_send_with_information() {
    let (here, there) = stacks();
    let (client, server) = pair(&here, &there).await;
    let mut send = client.open_send(StreamId(3)).unwrap();
    let info = SendInfo::on(StreamId(1)).ppid(strandline::Ppid(9)).unordered();
    send.send_with(Bytes::from_static(b"data"), info).await.unwrap();
    let message = server.recv().await.unwrap().unwrap();
    assert_eq!((message.stream, message.ppid.0, message.unordered), (StreamId(3), 9, true));
}
