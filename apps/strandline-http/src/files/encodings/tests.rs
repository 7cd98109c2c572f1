use super::*;

#[test]
fn codings_are_ordered_by_weight() {
    for (header, wanted) in [
        ("gzip, deflate, br, zstd", "br zstd gzip plain"),
        ("gzip;q=1.0, br;q=0.5", "gzip br plain"),
        ("gzip ; Q=0.001 , br;Q=0", "gzip plain"),
        ("br;q=0, *", "zstd gzip plain"),
        ("X-GZIP", "gzip plain"),
        ("identity", "plain"),
        ("identity, gzip;q=0.5", "plain gzip"),
        ("identity;q=0.5, gzip;q=0.6", "gzip plain"),
        ("identity;q=0, gzip", "gzip"),
        ("identity;q=0", ""),
        ("*;q=0", ""),
        ("*;Q=0.000, br", "br"),
        ("*;q=0, identity", "plain"),
        ("gzip;q=nonsense", "plain"),
        ("gzip;q=-1, br;q=1.1, zstd;q=nan", "plain"),
        ("gzip;q=0.0001, br;q=1e0, zstd;q=", "plain"),
        ("", "plain"),
    ] {
        let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, header.parse().unwrap())]);
        let all = accepted(&headers);
        let names: Vec<&str> = all.iter().map(|encoding| encoding.map_or("plain", |of| of.name)).collect();
        assert_eq!(names.join(" "), wanted, "{header}");
    }
    assert_eq!(accepted(&HeaderMap::new()), [None]);
}
