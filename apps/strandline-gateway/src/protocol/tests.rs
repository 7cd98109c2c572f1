use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;

use super::{Destination, Host, Malformed, Opening, Reason, Reply, Report};

fn address() -> impl Strategy<Value = SocketAddr> {
    (any::<IpAddr>(), 1..=u16::MAX).prop_map(|(ip, port)| SocketAddr::new(ip.to_canonical(), port))
}

fn destination() -> impl Strategy<Value = Destination> {
    prop_oneof![
        address().prop_map(Destination::of),
        ("[a-z][a-z0-9-]{0,40}(\\.[a-z][a-z0-9-]{0,20}){0,4}", 1..=u16::MAX)
            .prop_map(|(name, port)| Destination { host: Host::Name(name.into()), port }),
    ]
}

fn opening() -> impl Strategy<Value = Opening> {
    let source = || prop::option::of(address());
    prop_oneof![
        (destination(), source()).prop_map(|(to, source)| Opening::Connect { to, source }),
        (address(), any::<u32>(), any::<bool>()).prop_map(|(at, token, has_states)| Opening::Listen {
            at,
            token,
            has_states
        }),
        (any::<u32>(), source()).prop_map(|(token, source)| Opening::Accepted { token, source }),
        (destination(), source(), any::<u32>()).prop_map(|(to, source, token)| Opening::Flow {
            to,
            source,
            token
        }),
        (address(), any::<u32>(), any::<bool>()).prop_map(|(at, token, has_states)| Opening::ListenUdp {
            at,
            token,
            has_states
        }),
        (any::<u32>(), source(), any::<u32>())
            .prop_map(|(listener, source, token)| { Opening::AcceptedFlow { listener, source, token } }),
        Just(Opening::Report),
        Just(Opening::GoAway),
    ]
}

proptest! {
    #[test]
    fn openings_survive_encoding(opening in opening(), data in prop::collection::vec(any::<u8>(), 0..100)) {
        let bytes = opening.encode(&data);
        let (decoded, len) = Opening::decode(&bytes).unwrap();
        prop_assert_eq!(decoded, opening);
        prop_assert_eq!(&bytes[len..], &data);
    }

    #[test]
    fn cut_openings_are_malformed(opening in opening(), keep in any::<prop::sample::Index>()) {
        let bytes = opening.encode(&[]);
        prop_assert_eq!(Opening::decode(&bytes[..keep.index(bytes.len())]), Err(Malformed::Length));
    }

    #[test]
    fn replies_survive_encoding(at in prop::option::of(address()), text in "[a-z ]{0,80}") {
        let failed = Reply::Failed { reason: Reason::Refused, text: text.into() };
        for reply in [Reply::Done { at }, failed] {
            let bytes = reply.encode();
            prop_assert_eq!(Reply::decode(&bytes), Ok((reply, bytes.len())));
        }
    }

    #[test]
    fn destinations_survive_their_text(destination in destination()) {
        prop_assert_eq!(destination.to_string().parse::<Destination>().unwrap(), destination);
    }
}

#[test]
fn unknown_fields_are_skipped_or_refused() {
    let plain = Opening::Accepted { token: 7, source: None }.encode(&[]);
    let with = |kind: u8| {
        let mut bytes = plain.clone();
        bytes.extend_from_slice(&[kind, 1, 0]);
        bytes[3] += 3;
        bytes
    };
    assert_eq!(Opening::decode(&with(200)).unwrap().0, Opening::Accepted { token: 7, source: None });
    assert_eq!(Opening::decode(&with(100)), Err(Malformed::Field(100)));
}

#[test]
fn other_versions_and_kinds_are_refused() {
    assert_eq!(Opening::decode(&[2, 1, 0, 4]), Err(Malformed::Version(2)));
    assert_eq!(Opening::decode(&[1, 9, 0, 10, 4, 4, 0, 0, 0, 1]), Err(Malformed::Kind(9)));
}

#[test]
fn numbers_are_no_names() {
    for text in
        ["127.1", "0x7f000001", "0X7f000001", "2130706433", "1.2.3.0x4", "1.2.3.0X4", "a b", "", "é.example"]
    {
        assert_eq!(Host::parse(text), None, "{text}");
    }
    assert_eq!(Host::parse("Example.COM."), Some(Host::Name("example.com".into())));
    assert_eq!(Host::parse("[::ffff:127.0.0.1]"), Some(Host::Ip([127, 0, 0, 1].into())));
}

#[test]
fn destinations_need_a_port() {
    for text in ["host", "host:", "host:0", "host:70000", "::1:80", ":80"] {
        assert!(text.parse::<Destination>().is_err(), "{text}");
    }
}

#[test]
fn reports_survive_encoding() {
    let report = Report { lost_per_million: Some(1_000_000), window: 7, queued: u32::MAX, packet: 1500 };
    for report in [report, Report { lost_per_million: None, ..report }] {
        let mut bytes = report.encode().to_vec();
        assert_eq!(Report::decode(&bytes[1..]), None);
        bytes.push(0);
        assert_eq!(Report::decode(&bytes), Some(report));
    }
}
