use super::*;

#[test]
fn targets_are_decoded() {
    let target = |path: &str, is_directory| Some(Target { path: path.to_owned(), is_directory });
    assert_eq!(Target::parse("/"), target("", true));
    assert_eq!(Target::parse("/a/b%20c"), target("a/b c", false));
    assert_eq!(Target::parse("//a///b/"), target("a/b", true));
    assert_eq!(Target::parse("/%C3%A4"), target("ä", false));
    assert_eq!(Target::parse("/.well-known/x"), target(".well-known/x", false));
}

#[test]
fn targets_outside_are_rejected() {
    let long = format!("/{}", "a/".repeat(3000));
    for path in [
        "",
        "*",
        "a",
        "/..",
        "/a/../b",
        "/%2e%2e/etc",
        "/.%2e/x",
        "/a%2fb",
        "/a%00b",
        "/%",
        "/%4",
        "/%zz",
        "/%ff",
        "/.git/config",
        "/.",
        &long,
    ] {
        assert_eq!(Target::parse(path), None, "{path}");
    }
}

#[test]
fn encoded_names_survive_a_round_trip() {
    for name in ["a b", "ä%/", "\"<&>", "plain-1.0_~"] {
        assert_eq!(decode(&encode(name)).as_deref(), Some(name));
    }
}
