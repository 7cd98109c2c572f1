use super::*;

/// A chunk's record may contain the number of an entry that the log has removed: it is still in the past.
#[test]
fn number_of_a_removed_entry_is_past() {
    let mut log = ResentLog::default();
    let numbers: Vec<u16> = (0..10).map(|tsn| log.push(Tsn(tsn), Time::ZERO)).collect();
    log.prune(|_, number| number >= 8);
    for (number, whole) in numbers.iter().zip(0..) {
        assert_eq!(log.whole(*number), whole);
    }
    log.prune(|_, _| false);
    assert!(log.is_empty());
    assert_eq!(
        numbers.iter().map(|number| log.whole(*number)).collect::<Vec<_>>(),
        (0..10).collect::<Vec<_>>()
    );
}

/// Records contain sixteen bits of a number, and the oldest entries are removed.
#[test]
fn numbers_go_around() {
    let mut log = ResentLog::default();
    for whole in 0..200_000_u64 {
        let number = log.push(Tsn(whole as u32), Time::ZERO);
        assert_eq!(log.whole(number), whole);
        let old = whole.saturating_sub(60_000);
        assert_eq!(log.whole(old as u16), old, "at {whole}");
    }
    assert_eq!(log.len() as u64, NUMBERS);
}

/// However often other chunks are retransmitted meanwhile, a useful entry stays: without it its chunk would wait for
/// T3-rtx.
#[test]
fn late_chunk_keeps_only_its_entry() {
    let mut log = ResentLog::default();
    let late = log.push(Tsn(0), Time::from_nanos(7));
    for number in 1..60_000 {
        log.push(Tsn(number), Time::from_nanos(8));
        log.prune(|tsn, _| tsn == Tsn(0));
        assert!(log.len() <= ENTRIES_FEW, "at {number}");
    }
    assert_eq!(log.at(late), Some(Time::from_nanos(7)));
    assert_eq!(log.entry(0), Some((late, Tsn(0), Time::from_nanos(7))));
    assert_eq!(log.at(late + 1), None);
}

/// Useful entries are found behind others that have gone.
#[test]
fn entries_are_found_by_their_numbers() {
    let mut log = ResentLog::default();
    for number in 0..100_000_u32 {
        log.push(Tsn(number), Time::from_nanos(u64::from(number)));
        log.prune(|tsn, _| tsn.0.is_multiple_of(7));
    }
    for number in (100_000 - NUMBERS as u32)..100_000 {
        let at = log.at(number as u16);
        if number.is_multiple_of(7) {
            assert_eq!(at, Some(Time::from_nanos(u64::from(number))));
        }
        assert!(at.is_none_or(|at| at.as_nanos() == u64::from(number)));
    }
}
