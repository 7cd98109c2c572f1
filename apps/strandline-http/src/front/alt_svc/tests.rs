use super::*;

#[test]
fn announcements_survive_a_round_trip() {
    for udp_port in [None, Some(9899)] {
        let value = announce(8080, udp_port).unwrap();
        let lifetime = Duration::from_secs(86_400);
        let wanted = Announced::Sctp { port: 8080, udp_port, lifetime };
        assert_eq!(parse(value.to_str().unwrap()), Some(wanted));
    }
}

#[test]
fn sctp_is_found_among_others() {
    let value = "h3=\":443\"; ma=1, h1=\"a,b:80\"; x=\"h1-sctp=\\\",\", h1-sctp=\":81\";ma=60; persist=1";
    let wanted = Announced::Sctp { port: 81, udp_port: None, lifetime: Duration::from_secs(60) };
    assert_eq!(parse(value), Some(wanted));
    assert_eq!(parse("clear"), Some(Announced::Nothing));
}

#[test]
fn other_hosts_and_nonsense_are_ignored() {
    for value in [
        "",
        "h1-sctp",
        "h1-sctp=\"other:80\"",
        "h1-sctp=\":0\"",
        "h1-sctp=\":80000\"",
        "h1-sctp=\":+80\"",
        "h1-sctp=\":80\"; udp=+9899",
        "h1-sctp=\":80\"; ma=+60",
        "h1-sctp=\":80\"; ma=",
        "h1-sctp=\":80\"; udp=x",
        "h1-sctp=\":80\"; ma=-1",
        "h2=\":80\"",
    ] {
        assert_eq!(parse(value), None, "{value}");
    }
}

#[test]
fn lifetimes_are_bounded() {
    for seconds in ["99999999999", "99999999999999999999999"] {
        let value = format!("h1-sctp=\":80\"; ma={seconds}");
        let wanted = Announced::Sctp { port: 80, udp_port: None, lifetime: MAX_AGE_MAX };
        assert_eq!(parse(&value), Some(wanted));
    }
}
