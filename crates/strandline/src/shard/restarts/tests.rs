use super::*;

const CUT: Restart = Restart { cut: Some(StreamId(3)), anew: Anew::Peer };
const WHOLE: Restart = Restart { cut: None, anew: Anew::Peer };

#[test]
fn restarts_come_due_after_their_messages() {
    let mut restarts = Restarts::default();
    assert_eq!((restarts.ahead(), restarts.take_due()), (usize::MAX, None));
    restarts.push(2, CUT);
    restarts.push(5, WHOLE);
    restarts.advance(1);
    restarts.push(4, CUT);
    assert_eq!((restarts.ahead(), restarts.take_due()), (1, None));
    restarts.advance(1);
    assert_eq!((restarts.take_due(), restarts.ahead()), (Some(CUT), 3));
    restarts.advance(3);
    assert_eq!(restarts.take_due(), Some(CUT), "two restarts without a message between them are one");
    assert!(restarts.is_empty());
    restarts.push(0, WHOLE);
    assert_eq!(restarts.take_due(), Some(WHOLE));
}

/// Resets at one position are joined; a restart there concerns all streams.
#[test]
fn resets_at_one_position_are_one() {
    let reset = |streams: &[u16]| {
        let streams = streams.iter().copied().map(StreamId).collect();
        Restart { cut: None, anew: Anew::Streams(streams) }
    };
    let mut restarts = Restarts::default();
    restarts.push(1, reset(&[3, 5]));
    restarts.push(1, reset(&[4, 5]));
    restarts.push(3, reset(&[6]));
    restarts.push(3, WHOLE);
    restarts.advance(1);
    assert_eq!(restarts.take_due(), Some(reset(&[3, 4, 5])));
    restarts.advance(2);
    assert_eq!((restarts.take_due(), restarts.is_empty()), (Some(WHOLE), true));
}

/// A message that the peer gave up begins nothing anew, and hides no reset at its position.
#[test]
fn messages_that_were_given_up() {
    let given_up = || Restart { cut: Some(StreamId(3)), anew: Anew::Nothing };
    let reset = Restart { cut: None, anew: Anew::Streams(StreamId(4).into()) };
    let mut restarts = Restarts::default();
    restarts.push(1, given_up());
    assert!(!restarts.cut_is_due());
    restarts.advance(1);
    assert!(restarts.cut_is_due());
    assert_eq!(restarts.take_due(), Some(given_up()));
    assert!(!given_up().anew.concerns(StreamId(3)));
    for [first, second] in [[given_up(), reset.clone()], [reset.clone(), given_up()]] {
        restarts.push(0, first);
        restarts.push(0, second);
        let both = Restart { cut: Some(StreamId(3)), ..reset.clone() };
        assert_eq!((restarts.take_due(), restarts.is_empty()), (Some(both), true));
    }
}

/// Resets behind unread messages list so many streams; further ones count as resets of all.
#[test]
fn listed_streams_have_a_limit() {
    let many: Streams = (0..1000).map(StreamId).collect();
    let mut restarts = Restarts::default();
    for unread in 1..=1000 {
        restarts.push(unread, Restart { cut: None, anew: Anew::Streams(many.clone()) });
    }
    assert!(restarts.memory() < 250_000, "{} bytes", restarts.memory());
    let concerned: Vec<_> = std::iter::from_fn(|| {
        restarts.advance(1);
        restarts.take_due().map(|due| due.anew.concerns(StreamId(2000)))
    })
    .collect();
    let precise = LISTED_MAX / 1000;
    assert_eq!((concerned.len(), concerned.iter().position(|all| *all)), (1000, Some(precise)));
    assert_eq!(restarts.listed, 0);
}
