use super::*;

#[test]
fn a_mark_for_each_moment() {
    let at = Time::from_nanos;
    let base = Tsn(u32::MAX - 1);
    let mut times = SendTimes::default();
    assert_eq!(times.of(base), None);
    for (offset, nanos) in [(0, 5), (1, 5), (2, 5), (3, 9), (4, 9), (5, 20)] {
        times.on_sent(base + offset, at(nanos));
    }
    assert_eq!(times.marks.len(), 3);
    let all = |times: &SendTimes| (0..6).map(|offset| times.of(base + offset)).collect::<Vec<_>>();
    assert_eq!(all(&times), [5, 5, 5, 9, 9, 20].map(|nanos| Some(at(nanos))));
    times.advance(base + 2);
    assert_eq!(times.marks.len(), 3, "one chunk of the first moment is left");
    times.advance(base + 4);
    assert_eq!(times.marks.len(), 2);
    assert_eq!(times.of(base + 5), Some(at(20)));
    times.forget();
    assert_eq!(times.of(base + 5), None);
    times.on_sent(base + 6, at(20));
    assert_eq!(times.of(base + 6), Some(at(20)));
    assert_eq!(times.of(base + 5), None, "sent before the one that was sent again");
}
