use super::*;

#[test]
fn codings_are_ordered_by_weight() {
    for (header, wanted) in [
        ("gzip, deflate, br, zstd", "br zstd gzip"),
        ("gzip;q=1.0, br;q=0.5", "gzip br"),
        ("br;q=0, *", "zstd gzip"),
        ("X-GZIP", "gzip"),
        ("identity", ""),
        ("gzip;q=nonsense", ""),
        ("", ""),
    ] {
        let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, header.parse().unwrap())]);
        let names: Vec<&str> = accepted(&headers).iter().map(|encoding| encoding.name).collect();
        assert_eq!(names.join(" "), wanted, "{header}");
    }
    assert_eq!(accepted(&HeaderMap::new()), []);
}
