use super::*;

/// A flood of opening messages from ever new addresses must not cost a search of the whole table for each of them.
#[test]
fn table_is_swept_once_a_second() {
    #[allow(clippy::disallowed_methods, reason = "where virtual time begins does not matter")]
    let begin = Instant::now();
    let mut sources = Sources::new(1_000_000, begin);
    for source in 0..KNOWN_MAX as u32 {
        assert!(sources.may_begin(Source::V4(source), begin));
    }
    let late = |ms| begin + Duration::from_millis(ms);
    // The first source beyond the table finds nothing to forget.
    let _ = sources.may_begin(Source::V4(1 << 20), begin);
    assert_eq!(sources.own.len(), KNOWN_MAX);
    // All have their share again, but the table was searched less than a second ago.
    let _ = sources.may_begin(Source::V4(2 << 20), late(999));
    assert_eq!(sources.own.len(), KNOWN_MAX);
    let _ = sources.may_begin(Source::V4(3 << 20), late(1_000));
    assert_eq!(sources.own.keys().collect::<Vec<_>>(), [&Source::V4(3 << 20)]);
}
