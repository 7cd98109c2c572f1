use std::cell::RefCell;
use std::collections::HashMap;

use crate::codec::Uri;

use super::*;

/// The records of a zone; all others don't exist. Queries for names that begin with `broken` fail.
#[derive(Default)]
struct Zone {
    naptr: HashMap<&'static str, Vec<Naptr>>,
    srv: HashMap<&'static str, Vec<Srv>>,
    addresses: HashMap<&'static str, Vec<&'static str>>,
    asked: RefCell<Vec<String>>,
}

const TTL: Duration = Duration::from_secs(300);

impl Zone {
    fn ask<T>(&self, what: &str, name: &str, records: Option<Vec<T>>) -> QueryResult<T> {
        self.asked.borrow_mut().push(format!("{what} {name}"));
        if name.contains("broken") {
            return Err(NoAnswer);
        }
        let ttl = if records.is_some() { TTL } else { Duration::from_secs(60) };
        Ok((records.unwrap_or_default(), ttl))
    }

    fn srv(mut self, name: &'static str, records: &[(u16, u16, &str)]) -> Self {
        let one = |(priority, port, target): &(u16, u16, &str)| Srv {
            priority: *priority,
            weight: 0,
            port: *port,
            target: (*target).into(),
        };
        self.srv.insert(name, records.iter().map(one).collect());
        self
    }

    fn naptr(mut self, records: &[(u16, u16, &str, &str, &str)]) -> Self {
        let one = |(order, preference, flags, service, replacement): &(u16, u16, &str, &str, &str)| Naptr {
            order: *order,
            preference: *preference,
            flags: flags.as_bytes().into(),
            service: service.as_bytes().into(),
            replacement: (*replacement).into(),
        };
        self.naptr.insert("example.net", records.iter().map(one).collect());
        self
    }

    fn host(mut self, name: &'static str, addresses: &[&'static str]) -> Self {
        self.addresses.insert(name, addresses.to_vec());
        self
    }
}

impl Records for Zone {
    async fn naptr(&self, name: &str) -> QueryResult<Naptr> {
        self.ask("NAPTR", name, self.naptr.get(name).cloned())
    }

    async fn srv(&self, name: &str) -> QueryResult<Srv> {
        self.ask("SRV", name, self.srv.get(name).cloned())
    }

    async fn addresses(&self, name: &str, v6: bool) -> QueryResult<IpAddr> {
        let all = self.addresses.get(name).map(|all| {
            let parsed = all.iter().map(|address| address.parse::<IpAddr>().unwrap());
            parsed.filter(|address| address.is_ipv6() == v6).collect()
        });
        self.ask(if v6 { "AAAA" } else { "A" }, name, all)
    }
}

fn ours(protocols: &[Protocol]) -> Ours {
    Ours {
        protocols: protocols.iter().map(|protocol| (*protocol, true, *protocol != Protocol::Udp)).collect(),
    }
}

const ALL: [Protocol; 4] = [Protocol::Udp, Protocol::Tcp, Protocol::Tls, Protocol::Sctp];

fn answer(zone: &Zone, uri: &str, protocols: &[Protocol]) -> Answer {
    let Ok(Uri::Sip(uri)) = Uri::parse(uri.as_bytes()) else { panic!("{uri}") };
    let question = Question::of(&uri, &uri.host).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(locate_servers(&question, &ours(protocols), zone))
}

/// Protocols and addresses in the order of priority.
fn found(zone: &Zone, uri: &str, protocols: &[Protocol]) -> Vec<String> {
    match answer(zone, uri, protocols).found {
        Found::Servers(servers) => servers
            .iter()
            .flat_map(|server| server.addresses.iter().map(|at| format!("{} {at}", server.protocol.name())))
            .collect(),
        Found::Nothing => vec!["nothing".to_owned()],
        Found::NoAnswer => vec!["no answer".to_owned()],
    }
}

/// The example in RFC 3263 section 4.1.
fn example() -> Zone {
    Zone::default()
        .naptr(&[
            (100, 50, "s", "SIP+D2U", "_sip._udp.example.net."),
            (50, 50, "s", "SIPS+D2T", "_sips._tcp.example.net."),
            (90, 50, "S", "sip+d2t", "_sip._tcp.example.net."),
            (95, 50, "s", "SIP+D2S", "_sip._sctp.example.net."),
            (10, 50, "s", "SIP+D2X", "_sip._unknown.example.net."),
            (1, 1, "u", "E2U+sip", "example.net."),
        ])
        .srv(
            "_sip._tcp.example.net.",
            &[(0, 5060, "server1.example.net."), (1, 5070, "server2.example.net.")],
        )
        .srv("_sip._udp.example.net.", &[(0, 5060, "server1.example.net.")])
        .srv("_sip._sctp.example.net.", &[(0, 5060, "server2.example.net.")])
        .srv("_sips._tcp.example.net.", &[(0, 5061, "server1.example.net.")])
        .host("server1.example.net.", &["192.0.2.1"])
        .host("server2.example.net.", &["192.0.2.2", "2001:db8::2"])
        .host("example.net", &["192.0.2.9"])
}

#[test]
fn naptr_chooses_among_supported_transports() {
    let zone = example();
    let to = "sip:bob@example.net";
    assert_eq!(found(&zone, to, &ALL), ["tls 192.0.2.1:5061"]);
    assert_eq!(
        found(&zone, to, &[Protocol::Udp, Protocol::Tcp]),
        ["tcp 192.0.2.1:5060", "tcp [2001:db8::2]:5070", "tcp 192.0.2.2:5070"]
    );
    assert_eq!(found(&zone, to, &[Protocol::Udp]), ["udp 192.0.2.1:5060"]);
    assert_eq!(found(&zone, to, &[Protocol::Sctp]), ["sctp [2001:db8::2]:5060", "sctp 192.0.2.2:5060"]);
    // A client that resolves SIPS must not accept anything else.
    assert_eq!(found(&zone, "sips:bob@example.net", &ALL), ["tls 192.0.2.1:5061"]);
    assert_eq!(found(&zone, "sips:bob@example.net", &[Protocol::Udp, Protocol::Tcp]), ["nothing"]);
}

#[test]
fn order_precedes_preference_and_flag_a_works() {
    let zone = Zone::default()
        .naptr(&[
            (2, 1, "s", "SIP+D2T", "t."),
            (1, 9, "a", "SIP+D2U", "u."),
            (1, 8, "s", "SIP+D2S", "missing."),
        ])
        .host("u.", &["192.0.2.7", "0.0.0.0", "224.0.0.1"])
        .srv("t.", &[(0, 1, "u.")]);
    assert_eq!(found(&zone, "sip:example.net", &ALL), ["udp 192.0.2.7:5060"]);
}

#[test]
fn srv_without_naptr_shows_the_transports() {
    let mut zone = example();
    zone.naptr.clear();
    let zone = zone
        .srv("_sip._tcp.example.net", &[(0, 5060, "server1.example.net.")])
        .srv("_sip._udp.example.net", &[(0, 5062, "server1.example.net.")])
        .srv("_sips._tcp.example.net", &[(0, 5061, "server1.example.net.")]);
    assert_eq!(found(&zone, "sip:bob@example.net", &ALL), ["tcp 192.0.2.1:5060"]);
    assert_eq!(found(&zone, "sip:bob@example.net", &[Protocol::Udp]), ["udp 192.0.2.1:5062"]);
    assert_eq!(found(&zone, "sips:bob@example.net", &ALL), ["tls 192.0.2.1:5061"]);
}

#[test]
fn what_the_uri_says_isnt_asked_for() {
    for (uri, asked, there) in [
        // With a port: addresses only, over UDP or TLS.
        ("sip:example.net:5060", &["A example.net"][..], "udp 192.0.2.9:5060"),
        ("sips:example.net:5099", &["AAAA example.net", "A example.net"], "tls 192.0.2.9:5099"),
        ("sip:example.net:5070;transport=tcp", &["AAAA example.net", "A example.net"], "tcp 192.0.2.9:5070"),
        // With a transport: its SRV records, or addresses if there are none.
        (
            "sip:Example.NET.;transport=UDP",
            &["SRV _sip._udp.example.net", "A example.net"],
            "udp 192.0.2.9:5060",
        ),
        (
            "sip:example.net;transport=tls",
            &["SRV _sips._tcp.example.net", "AAAA example.net", "A example.net"],
            "tls 192.0.2.9:5061",
        ),
        (
            "sips:example.net;transport=tcp",
            &["SRV _sips._tcp.example.net", "AAAA example.net", "A example.net"],
            "tls 192.0.2.9:5061",
        ),
    ] {
        let zone = example();
        assert_eq!(found(&zone, uri, &ALL), [there], "{uri}");
        assert_eq!(*zone.asked.borrow(), asked, "{uri}");
    }
}

#[test]
fn domain_without_records_uses_its_address() {
    let zone = Zone::default().host("example.net", &["192.0.2.9"]);
    assert_eq!(found(&zone, "sip:example.net", &ALL), ["udp 192.0.2.9:5060"]);
    assert_eq!(found(&zone, "sips:example.net", &ALL), ["tls 192.0.2.9:5061"]);
    assert_eq!(found(&zone, "sip:example.net", &[Protocol::Tcp]), ["tcp 192.0.2.9:5060"]);
    assert_eq!(found(&zone, "sip:elsewhere.example", &ALL), ["nothing"]);
}

#[test]
fn absent_service_is_not_sought_by_address() {
    let zone =
        Zone::default().host("example.net", &["192.0.2.9"]).srv("_sip._udp.example.net", &[(0, 0, ".")]);
    assert_eq!(found(&zone, "sip:example.net", &ALL), ["nothing"]);
    assert_eq!(found(&zone, "sip:example.net;transport=udp", &ALL), ["nothing"]);
    assert_eq!(found(&zone, "sip:example.net;transport=tcp", &ALL), ["tcp 192.0.2.9:5060"]);
}

#[test]
fn shortest_ttl_counts_and_failures_expire_soon() {
    let zone = example();
    assert_eq!(
        answer(&zone, "sip:server2.example.net:5060;transport=tcp", &ALL).ttl,
        Duration::from_secs(60)
    );
    // If some targets can't be resolved, the others are used.
    let zone = Zone::default()
        .srv("_sip._tcp.example.net", &[(0, 5060, "broken."), (1, 5060, "fine.")])
        .host("fine.", &["192.0.2.4", "2001:db8::4"]);
    let partly = answer(&zone, "sip:example.net;transport=tcp", &ALL);
    assert_eq!(partly.ttl, NO_ANSWER);
    assert!(matches!(partly.found, Found::Servers(ref servers) if servers.len() == 1), "{partly:?}");
    assert_eq!(found(&zone, "sip:broken.example", &ALL), ["no answer"]);
}

#[test]
fn what_dns_gives_is_bounded() {
    let many: Vec<(u16, u16, &str)> = (0..200).map(|number| (number, 5060, "host.")).collect();
    let addresses: Vec<&'static str> = vec!["192.0.2.1"; 100];
    let zone = Zone::default().srv("_sip._udp.example.net", &many).host("host.", &addresses);
    let all = found(&zone, "sip:example.net;transport=udp", &ALL);
    assert_eq!(all.len(), TARGETS_MAX * ADDRESSES_MAX);
}
