//! Chunks that an NR-SACK reports as non-renegable.

use super::*;

/// An NR-SACK that was overtaken leaves out what a later one reports. A time-out repeats the chunks after that.
#[test]
fn time_out_passes_over_non_renegable_chunks() {
    for (renegable, kept, excused) in [
        (&[][..], &[(2, 4)][..], [true, false, false, false, true]),
        (&[(2, 4)], &[], [true, false, false, false, true]),
    ] {
        let mut board = five();
        hears_kept(&mut board, 10, 0, (renegable, kept));
        hears_kept(&mut board, 11, 0, (&[], &[]));
        board.excuse_first(TO.into(), 2 * BYTES);
        let found: Vec<bool> = board.chunks.iter().map(|chunk| chunk.excused).collect();
        assert_eq!(found, excused, "{kept:?}");
    }
}

/// The peer has them, whatever an NR-SACK leaves out that was overtaken.
#[test]
fn non_renegable_chunks_are_never_outstanding_again() {
    let mut board = five();
    hears_kept(&mut board, 10, 0, (&[], &[(2, 4)]));
    hears_kept(&mut board, 11, 0, (&[], &[]));
    assert!(board.behind.are_many(TO.into(), 1500), "three were acknowledged beyond the gap");
    assert_eq!(board.on_abandoned(at(11), Ppid(0)), 2 * 1000, "two were outstanding");
    let mut board = five();
    hears_kept(&mut board, 10, 0, (&[], &[(2, 4)]));
    hears_kept(&mut board, 11, 0, (&[], &[]));
    let Violation(text) = sends(&mut board, 12, 2).expect_err("it is non-renegable");
    assert!(text.contains("never revokes"), "{text}");
}

/// An NR-SACK that claims to keep what the next one denies was forged, or its sender lies. The peer gets the chunk
/// again, even if it goes on to report it.
#[test]
fn what_is_denied_is_sent_again() {
    // The NR-SACKs after one that keeps TSNs 1 and 2, of which the last one lets a chunk be sent again.
    for (next, tsn) in [
        (&[(1, &[][..], &[][..])][..], 2),
        (&[(1, &[(2, 4)], &[])], 2),
        (&[(0, &[], &[])], 1),
        (&[(0, &[], &[(1, 2)])], 1),
        (&[(0, &[], &[(1, 2)]), (0, &[], &[(1, 2)])], 1),
    ] {
        let mut board = five();
        hears_kept(&mut board, 10, 0, (&[], &[(1, 2)]));
        sends(&mut board, 11, tsn).expect_err("it is non-renegable");
        for (more, (cumulative, renegable, kept)) in (1..).zip(next) {
            hears_kept(&mut board, 10 + more, *cumulative, (renegable, kept));
        }
        sends(&mut board, 100, tsn).unwrap_or_else(|error| panic!("{next:?}: {error:?}"));
    }
}
