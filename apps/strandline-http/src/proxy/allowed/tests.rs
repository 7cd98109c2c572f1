use super::*;

fn is_allowed(patterns: &[&str], target: &str) -> bool {
    let patterns: Vec<Pattern> = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
    check(&patterns, &target.parse().unwrap()).is_ok()
}

#[test]
fn only_two_ports_are_open_by_default() {
    for (target, wanted) in [
        ("a:443", true),
        ("[::1]:80", true),
        ("a:22", false),
        ("a:25", false),
        ("a:4430", false),
        ("a", false),
        ("a:0", false),
    ] {
        assert_eq!(is_allowed(&[], target), wanted, "{target}");
    }
}

#[test]
fn patterns_open_more() {
    for (pattern, target, wanted) in [
        ("8443", "a:8443", true),
        ("8443", "a:8444", false),
        ("A.example.com:22", "a.Example.com.:22", true),
        ("a.example.com:22", "b.example.com:22", false),
        ("*.example.com:22", "x.y.example.com:22", true),
        ("*.example.com:22", "example.com:22", false),
        ("*.example.com:22", "evilexample.com:22", false),
        ("a:*", "a:1", true),
        ("*", "a:1", true),
        ("[::1]:22", "[::1]:22", true),
    ] {
        assert_eq!(is_allowed(&[pattern], target), wanted, "{pattern} {target}");
    }
    for wrong in ["", "x", "a:0", "a:99999", "a:+1", "a*:80", "*a:80", "*.*:80", "*.:80", ":80"] {
        assert!(wrong.parse::<Pattern>().is_err(), "{wrong}");
    }
}

#[test]
fn a_refusal_names_the_option() {
    let refused = check(&[], &"a:22".parse().unwrap()).unwrap_err().to_string();
    assert!(refused.contains("--allow a:22"), "{refused}");
}
