use super::*;

fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    fields.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
}

#[test]
fn content_ranges_are_checked() {
    let of = |text| ContentRange::of(&headers(&[("content-range", text)]));
    let range = ContentRange { first: 4, last: 6, len: Some(7) };
    assert_eq!(of("bytes 4-6/7"), Some(range));
    assert_eq!(of("Bytes 4-6/*"), Some(ContentRange { len: None, ..range }));
    assert_eq!(of("bytes 0-18446744073709551615/*").unwrap().bytes(), u64::MAX);
    for wrong in [
        "bytes 6-4/7",
        "bytes 4-7/7",
        "items 4-6/7",
        "bytes +4-6/7",
        "bytes 4-6",
        "bytes */7",
        "",
        "bytes -6/7",
    ] {
        assert_eq!(of(wrong), None, "{wrong}");
    }
    assert!(range.check_end(3).is_ok());
    assert!(matches!(range.check_end(2), Err(Failure::Partial { received: 6, .. })));
    assert!(matches!(range.check_end(4), Err(Failure::Partial { .. })));
    let part = ContentRange { len: Some(8), ..range };
    assert!(matches!(part.check_end(3), Err(Failure::Partial { received: 7, .. })));
    assert!(ContentRange { len: None, ..range }.check_end(3).is_ok());
}

#[test]
fn only_strong_validators_are_kept() {
    let (old, new) = ("Tue, 14 Nov 2023 22:13:20 GMT", "Tue, 14 Nov 2023 22:13:21 GMT");
    let cases: [(&[(&str, &str)], Option<&str>); 6] = [
        (&[("etag", "\"1\"")], Some("\"1\"")),
        (&[("etag", "W/\"1\""), ("last-modified", old), ("date", new)], None),
        (&[("last-modified", old), ("date", new)], Some(old)),
        (&[("last-modified", new), ("date", new)], None),
        (&[("last-modified", old)], None),
        (&[], None),
    ];
    for (fields, wanted) in cases {
        let found = validator(&headers(fields));
        assert_eq!(found.as_ref().map(|value| value.to_str().unwrap()), wanted, "{fields:?}");
    }
    let tag = HeaderValue::from_static("\"1\"");
    assert!(is_of(&headers(&[("etag", "\"1\"")]), &tag) && is_of(&headers(&[]), &tag));
    assert!(!is_of(&headers(&[("etag", "\"2\"")]), &tag));
    assert!(!is_of(&headers(&[("last-modified", new)]), &HeaderValue::from_static(old)));
}
