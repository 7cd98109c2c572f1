use super::*;

fn headers(list: &[(HeaderName, &str)]) -> HeaderMap {
    list.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
}

fn validators() -> Validators {
    Validators::new(UNIX_EPOCH + Duration::new(1_700_000_000, 5), 100, "")
}

#[test]
fn preconditions_follow_their_precedence() {
    let file = validators();
    let (same, later, earlier) =
        ("Tue, 14 Nov 2023 22:13:20 GMT", "Tue, 14 Nov 2023 22:13:21 GMT", "Tue, 14 Nov 2023 22:13:19 GMT");
    let weak = format!("W/{}", file.etag);
    let both = format!("\"other\", {weak}");
    let cases: &[(&[(HeaderName, &str)], Outcome)] = &[
        (&[], Outcome::Send),
        (&[(IF_NONE_MATCH, &file.etag)], Outcome::NotModified),
        (&[(IF_NONE_MATCH, &both)], Outcome::NotModified),
        (&[(IF_NONE_MATCH, "*")], Outcome::NotModified),
        (&[(IF_NONE_MATCH, "\"other\""), (IF_MODIFIED_SINCE, later)], Outcome::Send),
        (&[(IF_MODIFIED_SINCE, same)], Outcome::NotModified),
        (&[(IF_MODIFIED_SINCE, earlier)], Outcome::Send),
        (&[(IF_MODIFIED_SINCE, "nonsense")], Outcome::Send),
        (&[(IF_MATCH, &weak)], Outcome::Failed),
        (&[(IF_MATCH, &file.etag), (IF_UNMODIFIED_SINCE, earlier)], Outcome::Send),
        (&[(IF_UNMODIFIED_SINCE, earlier)], Outcome::Failed),
        (&[(IF_UNMODIFIED_SINCE, same)], Outcome::Send),
    ];
    for (list, outcome) in cases {
        assert_eq!(evaluate(&headers(list), &file), *outcome, "{list:?}");
    }
}

#[test]
fn ranges_are_clipped_to_the_file() {
    let range = |first, last| Part::Range { first, last };
    for (text, wanted) in [
        ("bytes=0-9", range(0, 9)),
        ("bytes=90-", range(90, 99)),
        ("bytes=-10", range(90, 99)),
        ("bytes=-1000", range(0, 99)),
        ("bytes=5-99999999999999999999999", range(5, 99)),
        ("bytes=100-", Part::Unsatisfiable),
        ("bytes=-0", Part::Unsatisfiable),
        ("bytes=9-0", Part::Whole),
        ("bytes=0-1,5-6", Part::Whole),
        ("bytes=+1-2", Part::Whole),
        ("lines=0-9", Part::Whole),
    ] {
        assert_eq!(part(&headers(&[(RANGE, text)]), &validators(), 100), wanted, "{text}");
    }
    assert_eq!(part(&headers(&[(RANGE, "bytes=0-")]), &validators(), 0), Part::Unsatisfiable);
}

#[test]
fn changed_files_are_sent_whole() {
    let stale = headers(&[(RANGE, "bytes=0-9"), (IF_RANGE, "\"stale\"")]);
    assert_eq!(part(&stale, &validators(), 100), Part::Whole);
    let etag = validators().etag;
    let current = headers(&[(RANGE, "bytes=0-9"), (IF_RANGE, &etag)]);
    assert_eq!(part(&current, &validators(), 100), Part::Range { first: 0, last: 9 });
}
