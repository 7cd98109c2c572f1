use super::super::outstanding::{Piece, State};
use super::*;
use crate::outbound::messages::MessageKey;
use crate::time::Time;

const FIRST: Tsn = Tsn(u32::MAX - 100);
const SLOW: PathIndex = PathIndex::P0;
const FAST: PathIndex = PathIndex::P1;

/// Chunks sent on these paths.
fn window(paths: impl Iterator<Item = PathIndex>) -> Outstanding {
    let mut outstanding = Outstanding::new(FIRST);
    for path in paths {
        outstanding.push(path, Piece { message: MessageKey::NONE, offset: 0, len: 1000, ends: true });
        outstanding.on_sent(Time::ZERO, path, 1, 1000);
    }
    outstanding
}

#[test]
fn thousands_of_other_chunks_lie_before_it() {
    let slow = core::iter::repeat_n(SLOW, 2000);
    let outstanding = window(slow.chain([FAST, SLOW, FAST]));
    let mut lowest = Lowest::new(FIRST);
    // Four searches of 512 each.
    let found: Vec<_> = (0..5).map(|_| lowest.find(&outstanding, FAST, usize::MAX)).collect();
    assert_eq!(found, [0, 0, 0, 2000, 2000]);
    assert_eq!(lowest.find(&outstanding, SLOW, usize::MAX), 0);
    assert_eq!(lowest.find(&outstanding, FAST, 2000), usize::MAX, "none below");
}

#[test]
fn acknowledged_and_revoked_chunks() {
    let mut outstanding = window([SLOW, FAST, FAST, FAST].into_iter());
    let mut lowest = Lowest::new(FIRST);
    outstanding.change(1, State::GapAcked);
    assert_eq!(lowest.find(&outstanding, FAST, 4), 2);
    outstanding.change(1, State::InFlight);
    lowest.on_outstanding(FAST, outstanding.tsn(1));
    assert_eq!(lowest.find(&outstanding, FAST, 4), 1);
    // A chunk of the other path is sent again on this one.
    outstanding.resend(0, FAST, None);
    lowest.on_outstanding(FAST, outstanding.tsn(0));
    assert_eq!((lowest.find(&outstanding, FAST, 4), lowest.find(&outstanding, SLOW, 4)), (0, usize::MAX));
}

#[test]
fn chunks_of_a_removed_path() {
    let mut outstanding = window([SLOW, FAST, SLOW].into_iter());
    let mut lowest = Lowest::new(FIRST);
    assert_eq!(lowest.find(&outstanding, FAST, 3), 1);
    outstanding.move_path(SLOW, FAST);
    lowest.on_moved(SLOW, FAST);
    assert_eq!(lowest.find(&outstanding, FAST, 3), 0);
}

#[test]
fn what_left_the_window_is_skipped() {
    let mut outstanding = window([SLOW; 200].into_iter().chain([FAST]));
    let mut lowest = Lowest::new(FIRST);
    outstanding.drop_front(150);
    assert_eq!(lowest.find(&outstanding, FAST, 51), 50);
    outstanding.drop_front(50);
    assert_eq!(lowest.find(&outstanding, FAST, 1), 0);
}
