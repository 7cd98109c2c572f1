//! The torture messages of RFC 5118 section 4: one test for each, with the requirements of its section.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::net::{IpAddr, Ipv6Addr};

use strandline_sip::codec::{Contacts, Essentials, Uri};

use crate::torture::{accepted, rejected};

macro_rules! rfc5118 {
    ($name:literal) => {
        include_bytes!(concat!("torture/rfc5118/", $name, ".dat"))
    };
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn target(essentials: &Essentials<'_>) -> (Option<IpAddr>, Option<u16>) {
    let Some(Uri::Sip(uri)) = essentials.uri else { panic!() };
    (uri.host.ip(), uri.port)
}

#[test]
fn ipv6_good() {
    accepted(rfc5118!("ipv6-good"), |message, essentials| {
        assert_eq!(target(&essentials), (Some(v6("2001:db8::10").into()), None));
        assert_eq!(essentials.via.host.ip(), Some(v6("2001:db8::9:1").into()));
        let Contacts::Some(mut contacts) = message.contacts().unwrap() else { panic!() };
        let contact = contacts.next().unwrap().unwrap().sip_uri().unwrap();
        assert_eq!(contact.host.ip(), Some(v6("2001:db8::1").into()));
    });
}

#[test]
fn ipv6_bad() {
    let (error, answerable) = rejected(rfc5118!("ipv6-bad"));
    assert_eq!(error.status().code(), 400);
    assert!(answerable);
}

#[test]
fn port_ambiguous() {
    accepted(rfc5118!("port-ambiguous"), |_, essentials| {
        assert_eq!(target(&essentials), (Some(v6("2001:db8::10:5070").into()), None));
    });
}

#[test]
fn port_unambiguous() {
    accepted(rfc5118!("port-unambiguous"), |_, essentials| {
        assert_eq!(target(&essentials), (Some(v6("2001:db8::10").into()), Some(5070)));
    });
}

#[test]
fn via_received_with_and_without_brackets() {
    for bytes in
        [&rfc5118!("via-received-param-with-delim")[..], &rfc5118!("via-received-param-no-delim")[..]]
    {
        accepted(bytes, |_, essentials| {
            assert_eq!(essentials.via.received, Some(v6("2001:db8::9:255").into()));
        });
    }
}

#[test]
fn ipv6_in_sdp() {
    accepted(rfc5118!("ipv6-in-sdp"), |message, essentials| {
        assert_eq!(essentials.via.host.ip(), Some(v6("2001:db8::20").into()));
        assert!(message.body().starts_with(b"v=0\r\no=assistant"));
    });
}

#[test]
fn mult_ip_in_header() {
    accepted(rfc5118!("mult-ip-in-header"), |message, _| {
        let vias: Vec<_> = message.vias().map(Result::unwrap).collect();
        assert_eq!(vias.len(), 3);
        assert_eq!((vias[0].host.ip(), vias[0].port), (Some(v6("2001:db8::9:1").into()), Some(6050)));
        assert_eq!(vias[1].host.ip(), Some("192.0.2.1".parse().unwrap()));
        assert_eq!(vias[2].received, Some("192.0.2.200".parse().unwrap()));
    });
}

#[test]
fn mult_ip_in_sdp() {
    accepted(rfc5118!("mult-ip-in-sdp"), |message, _| {
        assert!(message.content_type().unwrap().unwrap().is(b"application", b"sdp"));
    });
}

#[test]
fn ipv4_mapped_ipv6() {
    accepted(rfc5118!("ipv4-mapped-ipv6"), |message, essentials| {
        assert_eq!(essentials.via.host.to_string(), "[::ffff:192.0.2.10]");
        assert_eq!(essentials.via.host.ip(), Some("192.0.2.10".parse().unwrap()));
        assert_eq!(essentials.via.port, Some(19823));
        let contact = message.contacts().unwrap().next().unwrap().unwrap().sip_uri().unwrap();
        assert_eq!(contact.host.ip(), Some("192.0.2.2".parse().unwrap()));
    });
}

#[test]
fn two_colons_or_three() {
    for bytes in [&rfc5118!("ipv6-bug-abnf-3-colons")[..], &rfc5118!("ipv6-correct-abnf-2-colons")[..]] {
        accepted(bytes, |_, essentials| {
            let address = v6("2001:db8::192.0.2.1").into();
            assert_eq!(target(&essentials).0, Some(address));
            assert_eq!(essentials.to.sip_uri().unwrap().host.ip(), Some(address));
        });
    }
}

#[test]
fn every_message_has_its_test() {
    crate::torture::every_message_is_named("rfc5118", include_str!("rfc5118.rs"), 12);
}
