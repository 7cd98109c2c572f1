use super::*;
use bytes::Bytes;
use strandline_proto::number::Ppid;
use strandline_proto::reconfiguration::Streams;

/// Nothing is taken yet, of a limit that is not reached.
fn taken() -> Arc<TakenBytes> {
    Arc::new(TakenBytes::new(Arc::default(), 1 << 30))
}

fn message(stream: u16, size: usize) -> Message {
    Message::whole(StreamId(stream), Ppid(0), Bytes::from(vec![0; size]))
}

/// Removes the next item: the message's stream and size, or `None` for a restart.
fn pop(routes: &mut Routes, stream: Option<u16>) -> Option<Option<(u16, usize)>> {
    routes.pop(stream.map(StreamId)).map(|item| match item {
        Item::Message(message) => Some((message.stream.0, message.data.len())),
        Item::Restart(_) => None,
    })
}

#[test]
fn readers_get_their_streams_within_the_bound() {
    let (mut read, mut woken) = (WaitQueue::default(), Vec::new());
    let mut routes = Routes::new(1000, &taken());
    assert!(routes.claim(StreamId(1)));
    assert!(!routes.claim(StreamId(1)));
    routes.push(message(1, 400), &mut read, &mut woken);
    routes.push(message(2, 500), &mut read, &mut woken);
    assert!(routes.is_full());
    assert_eq!(pop(&mut routes, None), Some(Some((2, 500))));
    assert!(!routes.is_full());
    assert!(routes.pop(None).is_none());
    assert_eq!(pop(&mut routes, Some(1)), Some(Some((1, 400))));
    assert_eq!(routes.held.bytes, 0);
}

#[test]
fn an_association_beyond_its_share_waits_for_all() {
    let (mut read, mut woken) = (WaitQueue::default(), Vec::new());
    let taken = Arc::new(TakenBytes::new(Arc::default(), 10_000));
    let (mut routes, mut other) = (Routes::new(1 << 20, &taken), Routes::new(1 << 20, &taken));
    routes.push(message(1, 6000), &mut read, &mut woken);
    assert!(routes.takes_more());
    other.push(message(1, 4000), &mut read, &mut woken);
    assert!(!routes.takes_more() && routes.is_held_back());
    assert!(other.takes_more(), "it holds less than its share");
    assert!(routes.is_full(), "until it is tried again");
    drop(other);
    assert!(routes.takes_more() && !routes.is_full());
    drop(routes);
    assert_eq!(taken.bytes(), 0);
}

#[test]
fn late_reader_finds_earlier_messages() {
    let (mut read, mut woken) = (WaitQueue::default(), Vec::new());
    let mut routes = Routes::new(10_000, &taken());
    routes.push(message(3, 1), &mut read, &mut woken);
    routes.push(message(4, 2), &mut read, &mut woken);
    routes.push(message(3, 3), &mut read, &mut woken);
    assert!(routes.claim(StreamId(3)));
    assert_eq!(pop(&mut routes, Some(3)), Some(Some((3, 1))));
    routes.unclaim(StreamId(3), &mut read, &mut woken);
    let rest: Vec<_> = std::iter::from_fn(|| pop(&mut routes, None)).collect();
    assert_eq!(rest, [Some((4, 2)), Some((3, 3))]);
}

#[test]
fn restarts_concern_the_readers_they_interrupt() {
    let (mut read, mut woken) = (WaitQueue::default(), Vec::new());
    let mut routes = Routes::new(10_000, &taken());
    routes.push(message(3, 1), &mut read, &mut woken);
    assert!(routes.claim(StreamId(4)));
    routes.push_restart(Restart::of_peer(None));
    assert_eq!(pop(&mut routes, Some(4)), None, "its reader came after the restart");
    routes.expect_restart();
    routes.push_restart(Restart::of_peer(Some(StreamId(3))));
    routes.push_restart(Restart::of_peer(None));
    assert_eq!([pop(&mut routes, Some(4)), pop(&mut routes, Some(4))], [Some(None), None]);
    routes.push(message(3, 2), &mut read, &mut woken);
    // A reader of the stream that was cut off takes the restart over.
    assert!(routes.claim(StreamId(3)));
    let three: Vec<_> = std::iter::from_fn(|| pop(&mut routes, Some(3))).collect();
    assert_eq!(three, [Some((3, 1)), None, Some((3, 2))]);
    assert_eq!(pop(&mut routes, None), None);
}

#[test]
fn resets_concern_the_readers_of_their_streams() {
    let (mut read, mut woken) = (WaitQueue::default(), Vec::new());
    let mut routes = Routes::new(10_000, &taken());
    for stream in [3, 4, 5] {
        assert!(routes.claim(StreamId(stream)));
    }
    for stream in [3, 4, 9] {
        routes.push(message(stream, 1), &mut read, &mut woken);
    }
    let reset = || Restart { cut: None, anew: Anew::Streams(Streams::from([StreamId(4), StreamId(5)])) };
    routes.push_restart(reset());
    routes.push_restart(reset());
    for stream in [3, 4, 9] {
        routes.push(message(stream, 2), &mut read, &mut woken);
    }
    let mut all = |stream| std::iter::from_fn(|| pop(&mut routes, stream)).collect::<Vec<_>>();
    assert_eq!(all(Some(3)), [Some((3, 1)), Some((3, 2))], "it isn't reset");
    assert_eq!(all(Some(4)), [Some((4, 1)), None, Some((4, 2))]);
    assert_eq!(all(Some(5)), [], "nothing came before");
    assert_eq!(all(None), [Some((9, 1)), Some((9, 2))]);
}

/// A reader that comes after the reset of its stream finds it between the messages, whoever had them before.
/// So does one that comes after a reader has gone.
#[test]
fn resets_concern_later_readers_too() {
    let (mut read, mut woken) = (WaitQueue::default(), Vec::new());
    let mut routes = Routes::new(10_000, &taken());
    assert!(routes.claim(StreamId(9)));
    for stream in [3, 4] {
        routes.push(message(stream, 1), &mut read, &mut woken);
    }
    routes.push_restart(Restart { cut: None, anew: Anew::Streams(StreamId(3).into()) });
    routes.push_restart(Restart { cut: None, anew: Anew::Streams(StreamId(5).into()) });
    for stream in [3, 4, 5] {
        routes.push(message(stream, 2), &mut read, &mut woken);
    }
    for _ in 0..2 {
        for (stream, expected) in [
            (3, vec![Some((3, 1)), None, Some((3, 2))]),
            (4, vec![Some((4, 1)), Some((4, 2))]),
            (5, vec![Some((5, 2))]),
        ] {
            assert!(routes.claim(StreamId(stream)));
            let queue = &routes.streams[&StreamId(stream)].queue;
            let found: Vec<_> = queue
                .iter()
                .map(|item| match item {
                    Item::Message(message) => Some((message.stream.0, message.data.len())),
                    Item::Restart(_) => None,
                })
                .collect();
            assert_eq!(found, expected);
            routes.unclaim(StreamId(stream), &mut read, &mut woken);
        }
    }
}

/// Only the reader that got a part of a message learns that the peer gave it up.
#[test]
fn messages_given_up_concern_their_readers() {
    let (mut read, mut woken) = (WaitQueue::default(), Vec::new());
    let mut routes = Routes::new(10_000, &taken());
    for stream in [3, 4] {
        assert!(routes.claim(StreamId(stream)));
    }
    let mut round = |routes: &mut Routes, length| {
        for stream in [3, 4, 9] {
            routes.push(message(stream, length), &mut read, &mut woken);
        }
    };
    round(&mut routes, 1);
    for cut in [3, 9] {
        routes.push_restart(Restart { cut: Some(StreamId(cut)), anew: Anew::Nothing });
    }
    round(&mut routes, 2);
    let mut all = |stream| std::iter::from_fn(|| pop(&mut routes, stream)).collect::<Vec<_>>();
    assert_eq!(all(Some(3)), [Some((3, 1)), None, Some((3, 2))]);
    assert_eq!(all(Some(4)), [Some((4, 1)), Some((4, 2))]);
    assert_eq!(all(None), [Some((9, 1)), None, Some((9, 2))]);
}

/// Resets among unread messages list so many streams; further ones count as resets of all.
#[test]
fn listed_streams_have_a_limit() {
    let (mut read, mut woken) = (WaitQueue::default(), Vec::new());
    let many: Streams = (0..1000).map(StreamId).collect();
    let mut routes = Routes::new(1 << 20, &taken());
    assert!(routes.claim(StreamId(5000)));
    let idle = routes.memory();
    for _ in 0..1000 {
        routes.push(message(1, 1), &mut read, &mut woken);
        routes.push_restart(Restart { cut: None, anew: Anew::Streams(many.clone()) });
    }
    assert!(routes.memory() < idle + 500_000, "{} bytes", routes.memory());
    assert!(routes.claim(StreamId(6000)), "a reader of a stream without messages, which may have begun anew");
    routes.unclaim(StreamId(6000), &mut read, &mut woken);
    assert_eq!(std::iter::from_fn(|| pop(&mut routes, None)).flatten().count(), 1000);
    assert_eq!((routes.listed, routes.held.bytes), (0, 0));
}
