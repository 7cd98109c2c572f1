use super::*;

#[test]
fn a_zone_is_refused_by_name() {
    for zone in ["%25eth1", "%eth1", "%2"] {
        for scheme in ["http", "https", "http+sctp"] {
            let error = parse(&format!("{scheme}://[fe80::2{zone}]:8080/a")).unwrap_err();
            assert!(error.contains("no zones"), "{scheme} {zone}: {error}");
        }
    }
    for (text, said) in [
        ("http://[fe80::2%25eth1/", "invalid IPv6 address"),
        ("http://[g%25eth1]/", "invalid IPv6 address"),
        ("http://a:b/", "invalid port number"),
    ] {
        assert_eq!(parse(text).unwrap_err(), said, "{text}");
    }
    assert_eq!(parse("http://[fe80::2]/%25eth1").unwrap().host_str(), Some("[fe80::2]"));
}
