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
    let names = names_of("[::ffff:192.0.2.7]:9899".parse().unwrap(), &Zones::default());
    assert_eq!(names, ["[192.0.2.7]:9899", "192.0.2.7"]);
}

/// The most specific line counts. Case does in the name of an interface.
#[test]
fn link_local_hosts_are_listed_by_their_link() {
    let mut zones = Zones::default();
    zones.set(3, "v1");
    let address = "[fe80::2%3]:9899".parse().unwrap();
    assert_eq!(names_of(address, &zones), ["[fe80::2%v1]:9899", "fe80::2%v1", "[fe80::2]:9899", "fe80::2"]);
    assert_eq!(name_of(address, &Zones::default()), "fe80::2%3", "without the name");
    assert_eq!(name_of("[2001:db8::2]:9899".parse().unwrap(), &zones), "2001:db8::2");
    let (key, other) = (KEY.parse().unwrap(), OTHER.parse().unwrap());
    for (list, expected) in [
        (format!("FE80::2%v1 {KEY}\nfe80::2%v2 {OTHER}\nfe80::2%V1 {OTHER}"), Some(KEY)),
        (format!("fe80::2 {OTHER}\n[fe80::2%v1]:9899 {KEY}"), Some(KEY)),
        (format!("fe80::2 {OTHER}"), Some(OTHER)),
        (format!("fe80::2%v2 {KEY}"), None),
    ] {
        let hosts = KnownHosts::parse(&list).unwrap();
        for (key, text) in [(key, KEY), (other, OTHER)] {
            let found = hosts.look_up(address, &zones, None, key);
            assert_eq!(found == Found::Listed, expected == Some(text), "{list}: {found:?}");
            assert_eq!(found == Found::Nothing, expected.is_none(), "{list}: {found:?}");
        }
    }
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
        let found = match hosts.look_up(address, &Zones::default(), name, key) {
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
    let found =
        hosts.look_up("192.0.2.7:9899".parse().unwrap(), &Zones::default(), Some("b"), KEY.parse().unwrap());
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
    let found =
        hosts.look_up("192.0.2.7:9899".parse().unwrap(), &Zones::default(), Some("B"), KEY.parse().unwrap());
    assert!(matches!(found, Found::Other { expected, .. } if expected.is_empty()));
    assert_eq!(hosts.remove("b"), 1);
}
