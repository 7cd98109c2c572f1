use super::*;

const KEY: &str = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
/// Another one.
const OTHER: &str = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

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
    let names = names_of("[::ffff:192.0.2.7]:9899".parse().unwrap());
    assert_eq!(names, ["[192.0.2.7]:9899", "192.0.2.7"]);
}

/// A list that has other keys for the name that the user gave, in whatever case, or for the address, refuses
/// the server.
#[test]
fn every_listed_name_must_have_the_key() {
    let (key, other) = (KEY.parse().unwrap(), OTHER.parse().unwrap());
    let address = "192.0.2.7:9899".parse().unwrap();
    for (list, name, expected) in [
        (format!("server.example {KEY}"), Some("SERVER.Example"), Some(true)),
        (format!("SERVER.example {OTHER}"), Some("server.example"), Some(false)),
        (format!("server.example {OTHER}\n192.0.2.7 {KEY}"), Some("server.example"), Some(false)),
        (format!("server.example {KEY}\n192.0.2.7 {OTHER}"), Some("server.example"), Some(false)),
        (format!("192.0.2.7 {OTHER}\n[192.0.2.7]:9899 {KEY}"), None, Some(true)),
        (format!("192.0.2.7 {KEY}\n[192.0.2.7]:9899 {OTHER}"), None, Some(false)),
        (format!("192.0.2.7 {OTHER}\n192.0.2.7 {KEY}"), None, Some(true)),
        (format!("server.example {KEY}"), None, None),
    ] {
        let hosts = KnownHosts::parse(&list).unwrap();
        let found = match hosts.look_up(address, name, key) {
            Found::Listed => Some(true),
            Found::Other { .. } => Some(false),
            Found::Nothing => None,
        };
        assert_eq!(found, expected, "{list}, {name:?}");
    }
    let mut hosts = KnownHosts::default();
    let host =
        |name: &str, fingerprint| KnownHost { name: name.to_owned(), fingerprint, comment: String::new() };
    assert!(hosts.add(host("server.example", key)));
    assert!(!hosts.add(host("Server.Example", key)) && hosts.add(host("server.example", other)));
    assert_eq!(hosts.remove("SERVER.example"), 2);
}

#[test]
fn appended_lists_keep_unreadable_lines() {
    let read = |text: &str| KnownHosts::parse_lenient(text).unwrap().0;
    let mut hosts = read(&format!("a {KEY}\n"));
    hosts.append(read(&format!("# both\nb SHA256:short\nA {KEY}\nc {KEY}\n")));
    assert_eq!(hosts.to_string(), format!("a {KEY}\n# both\nb SHA256:short\nc {KEY}\n"));
    let found = hosts.look_up("192.0.2.7:9899".parse().unwrap(), Some("b"), KEY.parse().unwrap());
    assert!(matches!(found, Found::Other { expected, .. } if expected.is_empty()));
}

#[test]
fn last_line_may_end_with_a_carriage_return() {
    let hosts = KnownHosts::parse(&format!("a {KEY}\r\n# own\r")).unwrap();
    assert_eq!(hosts.to_string(), format!("a {KEY}\n# own\n"));
    assert_eq!(KnownHosts::parse(&hosts.to_string()), Ok(hosts));
}

#[test]
fn unreadable_lines_are_kept_and_trust_nobody() {
    let text = format!("a {KEY}\nb SHA256:short\nalone\n");
    let (mut hosts, errors) = KnownHosts::parse_lenient(&text).unwrap();
    assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [2, 3]);
    assert_eq!((hosts.hosts().count(), hosts.to_string()), (1, text));
    let found = hosts.look_up("192.0.2.7:9899".parse().unwrap(), Some("B"), KEY.parse().unwrap());
    assert!(matches!(found, Found::Other { expected, .. } if expected.is_empty()));
    assert_eq!(hosts.remove("b"), 1);
}
