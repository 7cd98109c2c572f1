use super::*;

/// A chunk's record may hold the number of an entry that the log has let go: it is one of the past all the same.
#[test]
fn the_number_of_an_entry_that_has_gone_is_of_the_past() {
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

/// Records hold sixteen bits of a number, and the oldest entries make room.
#[test]
fn numbers_go_around() {
    let mut log = ResentLog::default();
    for whole in 0..200_000_u64 {
        let number = log.push(Tsn(whole as u32), Time::ZERO);
        assert_eq!(log.whole(number), whole);
        let old = whole.saturating_sub(60_000);
        assert_eq!(log.whole(old as u16), old, "at {whole}");
    }
    assert_eq!(log.len(), ENTRIES_MAX);
}
