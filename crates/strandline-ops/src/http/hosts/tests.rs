use super::*;

fn check(bound: &str, names: &[&str], target: &str, lines: &[(&str, &str)]) -> u16 {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let hosts = Hosts::new("metrics", bound.parse().unwrap(), &names);
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = hyper::header::HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, value.parse().unwrap());
    }
    let checked = hosts.check(Version::HTTP_11, &target.parse().unwrap(), &headers);
    checked.map_or_else(|answer| answer.status(), |()| 200)
}

#[test]
fn hosts_are_addresses_localhost_and_configured_names() {
    for (bound, host, status) in [
        ("127.0.0.1", "127.0.0.1:9090", 200),
        ("127.0.0.1", "LOCALHOST.:9090", 200),
        ("127.0.0.1", "[::1]:9090", 200),
        ("127.0.0.1", "sip.example.com", 200),
        ("127.0.0.1", "rebound.example.net:9090", 421),
        ("127.0.0.1", "192.0.2.1", 421),
        ("127.0.0.1", "127.0.0.1.example.net", 421),
        ("127.0.0.1", "127.0.0.1:x", 421),
        ("127.0.0.1", "localhost@example.net", 421),
        ("192.0.2.1", "192.0.2.1", 200),
        ("192.0.2.1", "192.0.2.2", 421),
        ("192.0.2.1", "127.0.0.1", 421),
        ("0.0.0.0", "192.0.2.2:9090", 200),
        ("::", "[2001:db8::1]:9090", 200),
        ("0.0.0.0", "rebound.example.net", 421),
    ] {
        assert_eq!(check(bound, &["SIP.example.com"], "/", &[("host", host)]), status, "{bound} {host}");
    }
}

#[test]
fn a_request_has_one_host() {
    assert_eq!(check("127.0.0.1", &[], "/", &[]), 400);
    assert_eq!(check("127.0.0.1", &[], "/", &[("host", "localhost"), ("host", "localhost")]), 400);
    // The host of an absolute target takes precedence.
    let rebound = "http://rebound.example.net/live.json";
    assert_eq!(check("127.0.0.1", &[], rebound, &[("host", "localhost")]), 421);
}

#[test]
fn pages_from_elsewhere_may_not_ask() {
    for (host, origin, status) in [
        ("localhost:9090", "http://localhost:9090", 200),
        ("localhost:9090", "http://localhost:3000", 403),
        ("localhost:9090", "http://example.net", 403),
        ("localhost:9090", "null", 403),
        ("sip.example.com", "https://sip.example.com", 200),
        ("sip.example.com:443", "https://sip.example.com", 200),
        ("sip.example.com", "http://sip.example.com:8080", 403),
    ] {
        let lines = [("host", host), ("origin", origin)];
        assert_eq!(check("127.0.0.1", &["sip.example.com"], "/", &lines), status, "{host} {origin}");
    }
}
