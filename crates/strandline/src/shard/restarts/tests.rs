use super::*;

const CUT: Restart = Restart { cut: Some(StreamId(3)) };
const WHOLE: Restart = Restart { cut: None };

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
