use super::{differ_plainly, first_difference};
use crate::codec::Uri;

fn is_same(one: &[u8], other: &[u8]) -> bool {
    match (Uri::parse(one), Uri::parse(other)) {
        (Ok(one), Ok(other)) => one.matches(&other),
        _ => false,
    }
}

/// URIs that are equivalent although their texts differ, and similar ones that are not.
fn uris() -> Vec<String> {
    let users = ["", "1@", "01@", "%31@", "%311@", "a1@", "a2@", "a;1@", "a;2@", "1:1@", "1:2@", "10@"];
    let hosts = [
        "1.2.3.4",
        "01.2.3.4",
        "1.02.3.4",
        "1.12.3.4",
        "1.20.3.4",
        "10.2.3.4",
        "100.2.3.4",
        "110.2.3.4",
        "1.2.3.4.example",
        "h1",
        "H1",
        "h2",
        "h1.",
        "h01",
        "h10",
        "[::1]",
        "[::2]",
        "[::01]",
        "[::12:34]",
        "[0::1]",
        "[::25.2.3.4]",
        "[::1902:304]",
    ];
    let ends = [
        "", ":1", ":01", ":2", ":10", ":100", ":110", ":101", ";1=2;2=1", ";2=1;1=2", ";a=1", ";a=2",
        ";a=%31", "?1=1&2=2", "?2=2&1=1",
    ];
    let mut all = Vec::new();
    for scheme in ["sip", "sips", "SIP"] {
        for user in users {
            for host in hosts {
                all.extend(ends.iter().map(|end| format!("{scheme}:{user}{host}{end}")));
            }
        }
    }
    for other in [
        "tel:+1-2",
        "tel:+12",
        "tel:+1-3",
        "tel:+13",
        "tel:+1;a=1",
        "tel:+1;a=2",
        "urn:1",
        "urn:2",
        "h1:",
        "h2:",
    ] {
        all.push(other.to_owned());
    }
    all
}

#[test]
fn what_differs_plainly_is_never_the_same() {
    let uris = uris();
    let mut plainly = 0;
    // Compare each URI with its neighbours, and with a sample of all.
    for (number, one) in uris.iter().enumerate() {
        let near = uris.iter().skip(number + 1).take(400);
        let far = uris.iter().skip(number % 37).step_by(37);
        for other in near.chain(far) {
            let (one, other) = (one.as_bytes(), other.as_bytes());
            if differ_plainly(one, other) {
                plainly += 1;
                assert!(!is_same(one, other), "{} {}", one.escape_ascii(), other.escape_ascii());
            }
        }
    }
    assert!(plainly > 100_000, "{plainly}");
}

#[test]
fn contacts_with_other_port_or_address_differ() {
    let differ = |one: &str, other: &str| differ_plainly(one.as_bytes(), other.as_bytes());
    assert!(differ("sip:alice@192.0.2.1:40123", "sip:alice@192.0.2.1:40999;transport=tcp"));
    assert!(differ("sip:alice@192.0.2.17:5060", "sip:alice@192.0.2.31:5060"));
    assert!(differ("sip:alice@192.0.2.1:40003", "sip:alice@192.0.2.1:40013"));
    assert!(differ("sip:+15551@h", "sip:+15552@h"));
    // Possibly equivalent, as far as this check can tell.
    assert!(!differ("sip:alice@192.0.2.1", "sip:alice@192.00.2.1"));
    assert!(!differ("sip:alice@h", "sip:alice@h:5060"));
    assert!(!differ("sip:alice@h;a=1", "sip:alice@h;a=2"));
    assert!(!differ("sip:a%311@h", "sip:a%312@h"));
    assert!(!differ("sip:[::12:34]", "sip:[::25.2.3.4]"));
    assert!(!differ("sip:alice@h", "sip:alice@h"));
}

#[test]
fn the_first_difference_is_found_wherever_it_is() {
    let text: Vec<u8> = (0..40).collect();
    for at in 0..text.len() {
        let mut other = text.clone();
        other[at] = 0xff;
        assert_eq!(first_difference(&text, &other), at);
        assert_eq!(first_difference(&text, &text[..at]), at);
        assert_eq!(first_difference(&other[..at], &text), at);
    }
    assert_eq!(first_difference(&text, &text), text.len());
}
