use super::*;

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn a_new_address_needs_an_answer_from_there() {
    #[allow(clippy::disallowed_methods, reason = "where virtual time begins does not matter")]
    let now = Instant::now();
    let (old, new) = (at("192.0.2.1:1000"), at("192.0.2.1:2000"));
    let mut paths = Paths::new(old);
    assert_eq!(paths.place(new), Placed { known: old, challenge: true });
    assert!(paths.challenge(now, new, 7));
    assert!(!paths.challenge(now, new, 8), "one at a time");
    assert_eq!(paths.actual(old), old);
    assert_eq!(paths.on_response(new, 8), None, "another nonce");
    assert_eq!(paths.on_response(at("192.0.2.9:1"), 7), None, "from elsewhere");
    assert_eq!(paths.on_response(new, 7), Some((old, new)));
    assert_eq!(paths.actual(old), new);
    assert_eq!(paths.place(new), Placed { known: old, challenge: false });
}

#[test]
fn a_named_address_is_another_path() {
    let (first, second) = (at("192.0.2.1:1000"), at("198.51.100.1:1000"));
    let mut paths = Paths::new(first);
    paths.name(&[second.ip()]);
    assert_eq!(paths.place(second), Placed { known: second, challenge: false });
    assert_eq!(paths.known().collect::<Vec<_>>(), [first, second]);
}

#[test]
fn paths_have_a_limit() {
    let mut paths = Paths::new(at("192.0.2.1:1"));
    let added = (2..100).filter(|port| paths.add(at(&format!("192.0.2.1:{port}")))).count();
    assert_eq!(added, PATHS_MAX - 1);
}
