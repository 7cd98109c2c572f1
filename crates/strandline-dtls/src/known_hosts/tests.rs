use super::*;

const KEY: &str = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";

#[test]
fn a_list_is_written_as_it_was_read() {
    let text = format!("# hosts\n\nserver.example {KEY} added on Monday\n[::1]:9899 {KEY}\n");
    let hosts = KnownHosts::parse(&text).unwrap();
    assert_eq!(hosts.to_string(), text);
    assert_eq!(hosts.hosts().count(), 2);
}

#[test]
fn hosts_are_added_once_and_removed() {
    let mut hosts = KnownHosts::default();
    let host = |name: &str| KnownHost {
        name: name.to_owned(),
        fingerprint: KEY.parse().unwrap(),
        comment: String::new(),
    };
    assert!(hosts.add(host("a")));
    assert!(!hosts.add(host("a")));
    assert!(hosts.add(host("b")));
    assert_eq!(hosts.remove("a"), 1);
    assert_eq!(hosts.remove("a"), 0);
    assert_eq!(hosts.remove(KEY), 1);
}

#[test]
fn a_bad_line_is_named() {
    let error = KnownHosts::parse(&format!("a {KEY}\nb SHA256:short\n")).unwrap_err();
    assert_eq!(error.line, 2);
    assert_eq!(KnownHosts::parse("alone").unwrap_err().kind, LineError::NoFingerprint);
    assert_eq!(KnownHosts::parse(&"x".repeat(2000)).unwrap_err().kind, LineError::TooLong);
}

#[test]
fn a_host_is_known_by_several_names() {
    let names = names_of("[::ffff:192.0.2.7]:9899".parse().unwrap(), Some("server.example"));
    assert_eq!(names, ["[192.0.2.7]:9899", "192.0.2.7", "server.example"]);
}
