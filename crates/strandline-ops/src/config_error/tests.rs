use super::*;

const TEXT: &str = "\
listen = \"x\"
[limits]
buffer_mib = 0

[[peer]]
name = \"a\"
[[peer]]
addresses = []
inner = { depth = 1 }
[users]
\"a@example.com\" = []
\"b.c\" = []
\"q\\\"\\\\.\\u00e9\" = []
'l.\"i' = []
";

#[test]
fn keys_have_lines() {
    for (key, line) in [
        ("listen", Some(1)),
        ("limits", Some(2)),
        ("limits.buffer_mib", Some(3)),
        ("limits.missing", Some(2)),
        ("peer[0].name", Some(6)),
        ("peer[1].addresses", Some(8)),
        ("peer[1].inner.depth", Some(9)),
        ("peer[0].addresses", Some(5)),
        ("users.\"a@example.com\"", Some(11)),
        ("users.\"b.c\"", Some(12)),
        ("users.\"d.e\"", Some(10)),
        ("users.\"q\\\"\\\\.\\u00e9\"", Some(13)),
        ("users.\"q\\\"\\\\.\\u{e9}\"", Some(13)),
        ("users.'b.c'", Some(12)),
        ("users.'l.\"i'", Some(14)),
        ("users.\"l.\\\"i\"", Some(14)),
        ("peer[2].name", None),
        ("socks[0].listen", None),
    ] {
        assert_eq!(line_of(TEXT, key), line, "{key}");
    }
}

#[test]
fn errors_begin_with_file_and_line() {
    let error =
        ConfigError::value("limits.buffer_mib", "a number from 4 on").in_file(Path::new("a.toml"), TEXT);
    assert_eq!(error.to_string(), "a.toml:3: limits.buffer_mib: a number from 4 on");
    let error = ConfigError::value("--listen", "no address").in_file(Path::new("a.toml"), TEXT);
    assert_eq!(error.to_string(), "--listen: no address");
}

/// Each error has the line of its key, in whatever order they are, except those about values from elsewhere.
#[test]
fn several_errors_have_their_lines() {
    let keys = ["users.\"b.c\"", "listen", "peer[0].name", "limits.buffer_mib"];
    let errors = keys.iter().map(|key| ConfigError::value(*key, "wrong")).collect();
    let path = Path::new("a.toml");
    let said = ConfigError::Several(errors).in_file_unless(path, TEXT, |key| key == "listen").in_order();
    let expected = "a.toml:3: limits.buffer_mib: wrong\na.toml:6: peer[0].name: wrong\n\
                    a.toml:12: users.\"b.c\": wrong\nlisten: wrong";
    assert_eq!(said.to_string(), expected);
}
