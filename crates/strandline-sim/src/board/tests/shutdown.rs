//! SHUTDOWNs with SACKs around them.

use super::*;

/// Tries to send a chunk that a SACK acknowledged. Returns whether it is refused for that.
fn is_held(board: &mut Board, tsn: u32) -> bool {
    let refused = sends(board, 2000, tsn).err().map(|Violation(text)| text).unwrap_or_default();
    refused.contains("the last SACK acknowledged")
}

/// A SHUTDOWN that acknowledges everything before a chunk of a gap block shows that the peer lacks that one.
#[test]
fn shutdown_may_contradict_gap_blocks() {
    for (cumulative, contradicts) in [(0, false), (1, false), (2, true)] {
        let mut board = five();
        hears(&mut board, 10, 0, &[(3, 4)]);
        shuts_down_in(&mut board, AssociationState::Established, 11, cumulative);
        for tsn in [3, 4] {
            assert_eq!(is_held(&mut board, tsn), !contradicts, "{cumulative} {tsn}");
        }
    }
}

/// Returns a board with TSNs 1 to 60 in flight, of which a full SACK has acknowledged the even ones from 2 to 40, and
/// the next one, which moves the cumulative TSN, those from 4 to 36.
fn sixty() -> Board {
    let mut board = in_flight(60);
    set_by_time(&mut board, true);
    let blocks: Vec<_> = (1..=20).map(|block| (2 * block, 2 * block)).collect();
    hears(&mut board, 10, 0, &blocks);
    let blocks: Vec<_> = (1..=17).map(|block| (2 * block, 2 * block)).collect();
    hears(&mut board, 11, 2, &blocks);
    board
}

/// A full SACK revokes nothing beyond its end (decision 83). A SHUTDOWN up to there shows that the peer lacks it.
#[test]
fn shutdown_may_contradict_a_full_sack() {
    for (cumulative, contradicts) in [(36, false), (37, true)] {
        let mut board = sixty();
        hears(&mut board, 12, 2, &[(50, 50)]);
        shuts_down_in(&mut board, AssociationState::Established, 13, cumulative);
        assert_eq!(is_held(&mut board, 52), !contradicts, "{cumulative}");
    }
}

/// What a full SACK left out is no part of the packet that a time-out repeats, after other SACKs as well.
#[test]
fn what_a_full_sack_omits_is_not_repeated() {
    let mut board = sixty();
    hears(&mut board, 12, 2, &[(50, 50)]);
    for tsn in (3..=35).step_by(2).chain([37]) {
        board.chunks[tsn as usize - 3].abandoned = true;
    }
    board.excuse_first(TO.into(), 1500);
    let excused = [39, 41].map(|tsn| board.chunks[tsn - 3].excused);
    assert_eq!(excused, [true, false], "one has room");
}

/// The SACK behind a SHUTDOWN, often in the same packet, acknowledges as much. It is newer than those before.
#[test]
fn a_sack_behind_a_shutdown_is_newer() {
    for (shutdown, withdrawn) in [(false, false), (true, true)] {
        let mut board = five();
        hears(&mut board, 10, 0, &[(3, 4)]);
        if shutdown {
            shuts_down_in(&mut board, AssociationState::Established, 11, 1);
        } else {
            hears(&mut board, 11, 1, &[(2, 3)]);
        }
        hears(&mut board, 11, 1, &[(3, 3)]);
        assert_eq!((is_held(&mut board, 3), is_held(&mut board, 4)), (!withdrawn, true), "{shutdown}");
        hears(&mut board, 12, 1, &[]);
        assert!(is_held(&mut board, 4), "this one may be older");
    }
}
