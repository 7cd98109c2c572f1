#![allow(clippy::unwrap_used)]

use super::*;
use crate::codec::{Element, Index};

/// Via lines, and the texts of their values as far as these are well-formed.
const VIAS: [(&str, &[&str]); 12] = [
    (
        "Via: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK1;rport\r\n",
        &["SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK1;rport"],
    ),
    (
        "v:SIP/2.0/TCP a.example ; rport ; received=10.0.0.9;branch=z9hG4bK2 ;oc\r\n",
        &["SIP/2.0/TCP a.example ; rport ; received=10.0.0.9;branch=z9hG4bK2 ;oc"],
    ),
    (
        "Via: SIP/2.0/TLS [2001:db8::1]:5061;received=[2001:db8::2] ;rport=7;alias\r\n",
        &["SIP/2.0/TLS [2001:db8::1]:5061;received=[2001:db8::2] ;rport=7;alias"],
    ),
    (
        "Via: SIP/2.0/SCTP a.example;branch=z9hG4bK3 , SIP/2.0/UDP 192.0.2.1;branch=4\r\n",
        &["SIP/2.0/SCTP a.example;branch=z9hG4bK3", "SIP/2.0/UDP 192.0.2.1;branch=4"],
    ),
    (
        "Via: SIP/2.0/WS a.example\r\n ;branch=5\r\nVia: SIP/2.0/WSS b.example;rport\r\n",
        &["SIP/2.0/WS a.example\r\n ;branch=5", "SIP/2.0/WSS b.example;rport"],
    ),
    ("Via: SIP / 2.0 / TLS-SCTP a.example : 9\r\n", &["SIP / 2.0 / TLS-SCTP a.example : 9"]),
    (
        "Via: SIP/2.0/OWN 192.0.2.1;rport;received=10.0.0.9\r\n",
        &["SIP/2.0/OWN 192.0.2.1;rport;received=10.0.0.9"],
    ),
    ("Via: SIP/2.0/UDP 192.0.2.1;rport;rport=9;received=1.1.1.1\r\n", &[]),
    ("Via: SIP/2.0/UDP 192.0.2.1;rport;=;received=1.1.1.1\r\n", &[]),
    ("Via: SIP/3.0/UDP 192.0.2.1;rport\r\n", &[]),
    ("Via: SIP/2.0/UDP 192.0.2.1;rport x\r\n", &[]),
    ("", &[]),
];

fn message_with(vias: &str) -> String {
    format!("BYE sip:a.example SIP/2.0\r\n{vias}CSeq: 1 BYE\r\n\r\n")
}

#[test]
fn topmost_via_is_the_same_by_each_method() {
    for (lines, values) in VIAS {
        let text = message_with(lines);
        let mut index = Index::new();
        let message = Message::parse(text.as_bytes(), &mut index).unwrap();
        let expected: Vec<String> =
            values.iter().map(|value| format!("{:?}", Via::parse(value.as_bytes()).unwrap())).collect();
        let found: Vec<String> = message.vias().map_while(Result::ok).map(|via| format!("{via:?}")).collect();
        assert_eq!(found, expected, "{lines}");
        let top = message.via().ok().map(|via| format!("{via:?}"));
        assert_eq!(top.as_ref(), expected.first(), "{lines}");
        assert_eq!(message.vias().count().max(1), values.len().max(1), "{lines}");
        assert!(values.is_empty() || message.is_answerable(), "{lines}");
    }
}

#[test]
fn notes_match_when_via_was_parsed_before() {
    let sources = ["192.0.2.1:7", "10.0.0.9:5060", "[2001:db8::1]:7", "[::ffff:192.0.2.1]:7"];
    for (lines, values) in VIAS {
        let text = message_with(lines);
        let mut index = Index::new();
        let message = Message::parse(text.as_bytes(), &mut index).unwrap();
        let known = values.first().is_some_and(|value| !value.contains("/OWN"));
        assert_eq!(message.index.top_via().is_some(), known, "{lines}");
        for source in sources {
            let source = source.parse().unwrap();
            let line = message.index.first(HeaderName::Via);
            let cursor = line.and_then(|number| line_cursor(message.bytes, message.index, number));
            let expected = cursor.and_then(|cursor| notes_of(cursor, source)).unwrap_or_default();
            let found = notes(&message, source);
            assert_eq!(found, expected, "{lines}");
            let starts: Vec<usize> = found.iter().flatten().map(|(start, ..)| *start).collect();
            assert!(starts.is_sorted(), "{lines}");
        }
    }
}

#[test]
fn index_forgets_the_previous_messages_via() {
    let mut index = Index::new();
    let first = message_with(VIAS[0].0);
    assert!(Message::parse(first.as_bytes(), &mut index).unwrap().via().is_ok());
    for without in ["BYE sip:a.example SIP/2.0\r\nCSeq: 1 BYE\r\n\r\n", "BYE sip:a.example SIP/2.0\r\n\r\n"] {
        let message = Message::parse(without.as_bytes(), &mut index).unwrap();
        assert!(message.via().is_err());
        assert!(!message.is_answerable());
    }
    assert!(Message::parse(b"BYE", &mut index).is_err());
    assert!(index.top_via().is_none());
}
