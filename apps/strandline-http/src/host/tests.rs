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
