use super::*;

#[test]
fn hosts_follow_the_grammar() {
    for host in ["", "a", "example.com:8080", "a:", "127.0.0.1:80", "[::1]", "[::1]:443", "b%20c", "x_y"] {
        assert!(is_host(host.as_bytes()), "{host}");
    }
    let malformed = [
        ":80", "a/b", "a b", "user@a", "a:b", "a:65536", "a:+1", "[::1", "[::1]x", "[::1]:x", "[a]", "a:1:2",
        "a?", "a#b", "a%2", "a%zz", "a\\b", "<a>", "é", "http://a",
    ];
    for host in malformed {
        assert!(!is_host(host.as_bytes()), "{host}");
    }
    assert!(!is_host(b"a\xff"));
}

#[test]
fn targets_need_valid_hosts_and_ports() {
    let check = |target: &str| {
        let uri: Uri = target.parse().unwrap();
        super::check(&Request::get(uri).header(HOST, "a").body(()).unwrap()).is_ok()
    };
    for target in ["/", "*", "http://a", "http://a:/", "http://a:80/", "http://u:p@[::1]:443/", "a:65535"] {
        assert!(check(target), "{target}");
    }
    for target in
        ["http://a:99999/", "http://a:65536", "a:99999", "http://u@a:x/", "http://:80/", "http://u@:80/"]
    {
        assert!(target.parse::<Uri>().is_err() || !check(target), "{target}");
    }
    let port = |uri: &str| port_of(&uri.parse().unwrap(), 80);
    assert_eq!([port("http://a/"), port("http://a:/"), port("http://a:81/")], [Some(80), Some(80), Some(81)]);
    assert_eq!(port("http://a:99999/"), None);
}
