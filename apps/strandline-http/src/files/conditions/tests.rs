use super::*;

fn headers(list: &[(HeaderName, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in list {
        headers.append(name, value.parse().unwrap());
    }
    headers
}

/// Validators of a file that was changed so many milliseconds ago.
fn changed_before(milliseconds: u64) -> Validators {
    let changed = Duration::new(1_700_000_000, 5);
    let now = changed + Duration::from_millis(milliseconds);
    Validators::new(Times { modified: changed, changed, now }, 100, "")
}

fn validators() -> Validators {
    changed_before(1000)
}

#[test]
fn entity_tags_follow_the_change_time() {
    let old = Duration::from_secs(1_600_000_000);
    let times =
        |seconds: u64| Times { modified: old, changed: old + Duration::from_secs(seconds), now: old * 2 };
    let [first, second] = [5, 6].map(|seconds| Validators::new(times(seconds), 100, ""));
    assert_eq!(first.modified, second.modified, "as after cp --preserve");
    assert_ne!(first.etag, second.etag);
}

#[test]
fn files_that_have_just_changed_have_weak_validators() {
    let (weak, strong) = (changed_before(999), changed_before(1000));
    assert_eq!(weak.etag, format!("W/{}", strong.etag));
    for file in [&weak, &strong] {
        for tag in [&weak.etag, &strong.etag] {
            assert_eq!(evaluate(&headers(&[(IF_NONE_MATCH, tag)]), file), Outcome::NotModified, "{tag}");
        }
    }
    assert_eq!(evaluate(&headers(&[(IF_MATCH, &weak.etag)]), &weak), Outcome::Failed);
    assert_eq!(evaluate(&headers(&[(IF_MATCH, &strong.etag)]), &strong), Outcome::Send);
    for condition in [weak.etag.as_str(), &strong.etag, "Tue, 14 Nov 2023 22:13:20 GMT"] {
        let asked = headers(&[(RANGE, "bytes=0-9"), (IF_RANGE, condition)]);
        assert_eq!(part(&asked, &weak, 100), Part::Whole, "{condition}");
        let is_strong = condition != weak.etag;
        assert_eq!(part(&asked, &strong, 100) != Part::Whole, is_strong, "{condition}");
    }
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
        (&[(IF_MATCH, "*")], Outcome::Send),
        (&[(IF_MATCH, "\"other\""), (IF_MATCH, &file.etag)], Outcome::Send),
        (&[(IF_NONE_MATCH, "\"other\""), (IF_NONE_MATCH, &weak)], Outcome::NotModified),
        (&[(IF_MODIFIED_SINCE, later), (IF_MODIFIED_SINCE, later)], Outcome::Send),
        (&[(IF_MATCH, &file.etag), (IF_UNMODIFIED_SINCE, earlier)], Outcome::Send),
        (&[(IF_UNMODIFIED_SINCE, earlier)], Outcome::Failed),
        (&[(IF_UNMODIFIED_SINCE, same)], Outcome::Send),
    ];
    for (list, outcome) in cases {
        assert_eq!(evaluate(&headers(list), &file), *outcome, "{list:?}");
    }
}

/// Members that are no entity tags, and entity tags that hold commas.
#[test]
fn malformed_lists_match_nothing() {
    let file = validators();
    let (tag, bare) = (file.etag.clone(), file.etag.trim_matches('"').to_owned());
    for (list, matches) in [
        (format!(" , {tag} ,"), true),
        (format!("\"a,b\",{tag}"), true),
        (format!("\"\", W/\"x\", {tag}"), true),
        (format!("\"a, {tag}"), false),
        (format!("{tag}, *"), false),
        (format!("*, {tag}"), false),
        (format!("w/{tag}"), false),
        (format!("W/ {tag}"), false),
        (format!("{tag} {tag}"), false),
        (format!("nonsense, {tag}"), false),
        (format!("\"a b\", {tag}"), false),
        (format!("\"x,{bare}\""), false),
        (format!("\"x\", \"y, {bare}"), false),
        (bare, false),
        ("\"".to_owned(), false),
        (String::new(), false),
    ] {
        let none = evaluate(&headers(&[(IF_NONE_MATCH, &list)]), &file);
        assert_eq!(none == Outcome::NotModified, matches, "{list}");
        let any = evaluate(&headers(&[(IF_MATCH, &list)]), &file);
        assert_eq!(any == Outcome::Send, matches, "{list}");
    }
}

fn range(first: u64, last: u64) -> Range {
    Range { first, last }
}

#[test]
fn ranges_are_clipped_to_the_file() {
    let one = |first, last| Part::Range(range(first, last));
    for (text, wanted) in [
        ("bytes=0-9", one(0, 9)),
        ("bytes=90-", one(90, 99)),
        ("bytes=-10", one(90, 99)),
        ("bytes=-1000", one(0, 99)),
        ("bytes=5-99999999999999999999999", one(5, 99)),
        ("bytes=100-", Part::Unsatisfiable),
        ("bytes=-0", Part::Unsatisfiable),
        ("bytes=9-0", Part::Whole),
        ("bytes=+1-2", Part::Whole),
        ("bytes=", Part::Whole),
        ("lines=0-9", Part::Whole),
    ] {
        assert_eq!(part(&headers(&[(RANGE, text)]), &validators(), 100), wanted, "{text}");
    }
    assert_eq!(part(&headers(&[(RANGE, "bytes=0-")]), &validators(), 0), Part::Unsatisfiable);
}

#[test]
fn ranges_that_touch_are_joined() {
    let many = |ranges: &[(u64, u64)]| {
        Part::Ranges(ranges.iter().map(|(first, last)| range(*first, *last)).collect())
    };
    for (text, wanted) in [
        ("bytes=0-1,5-9", many(&[(0, 1), (5, 9)])),
        ("bytes= 50-59 , ,0-1,", many(&[(50, 59), (0, 1)])),
        ("bytes=0-9,30-39,5-14", many(&[(0, 14), (30, 39)])),
        ("bytes=30-39,0-9,10-29", Part::Range(range(0, 39))),
        ("bytes=0-1,0-1,0-1", Part::Range(range(0, 1))),
        ("bytes=0-1,200-300", Part::Range(range(0, 1))),
        ("bytes=0-1,-2,5-5", many(&[(0, 1), (98, 99), (5, 5)])),
        ("bytes=200-,300-", Part::Unsatisfiable),
        ("bytes=0-1,9-5", Part::Whole),
        ("bytes=0-1,x", Part::Whole),
    ] {
        assert_eq!(part(&headers(&[(RANGE, text)]), &validators(), 100), wanted, "{text}");
    }
}

#[test]
fn too_many_ranges_are_ignored() {
    let list = |count: u64| {
        let specs: Vec<String> = (0..count).map(|at| format!("{}-{}", 3 * at, 3 * at)).collect();
        format!("bytes={}", specs.join(","))
    };
    let most = part(&headers(&[(RANGE, &list(64))]), &validators(), 1000);
    assert!(matches!(most, Part::Ranges(ranges) if ranges.len() == 64));
    assert_eq!(part(&headers(&[(RANGE, &list(65))]), &validators(), 1000), Part::Whole);
}

#[test]
fn changed_files_are_sent_whole() {
    let stale = headers(&[(RANGE, "bytes=0-9"), (IF_RANGE, "\"stale\"")]);
    assert_eq!(part(&stale, &validators(), 100), Part::Whole);
    let etag = validators().etag;
    for list in [format!("{etag}, {etag}"), format!("W/{etag}"), "*".to_owned()] {
        let asked = headers(&[(RANGE, "bytes=0-9"), (IF_RANGE, &list)]);
        assert_eq!(part(&asked, &validators(), 100), Part::Whole, "{list}");
    }
    for twice in [[RANGE, RANGE, IF_RANGE], [RANGE, IF_RANGE, IF_RANGE]] {
        let asked = twice.map(|name| {
            let value = if name == RANGE { "bytes=0-9" } else { &etag };
            (name, value)
        });
        assert_eq!(part(&headers(&asked), &validators(), 100), Part::Whole, "{asked:?}");
    }
    let current = headers(&[(RANGE, "bytes=0-9"), (IF_RANGE, &etag)]);
    assert_eq!(part(&current, &validators(), 100), Part::Range(range(0, 9)));
}
