use crate::codec::{HeaderName, Index, Message};

fn with<T>(headers: &str, look: impl FnOnce(&Message<'_>) -> T) -> T {
    let text = format!("OPTIONS sip:a.example SIP/2.0\r\n{headers}Content-Length: 0\r\n\r\n");
    let mut index = Index::new();
    let message = Message::parse(text.as_bytes(), &mut index).unwrap();
    look(&message)
}

#[test]
fn one_via_is_told_from_several() {
    let only = |headers: &str| with(headers, |message| message.has_only(&message.via().unwrap()));
    assert!(only("Via: SIP/2.0/UDP h;branch=z9hG4bK1\r\n"));
    assert!(only("v: SIP/2.0/UDP h ;rport;branch=z9hG4bK1  \r\nCSeq: 1 OPTIONS\r\n"));
    assert!(only("Via: SIP/2.0/UDP h;x=\"a,b\"\r\n"));
    assert!(!only("Via: SIP/2.0/UDP h;branch=z9hG4bK1, SIP/2.0/UDP i;branch=z9hG4bK2\r\n"));
    assert!(!only("Via: SIP/2.0/UDP h;branch=z9hG4bK1\r\nVia: SIP/2.0/UDP i;branch=z9hG4bK2\r\n"));
    assert!(!only("Via: SIP/2.0/UDP h;branch=z9hG4bK1,\r\n SIP/2.0/UDP i\r\n"));
    assert!(!only("Via: SIP/2.0/UDP h, SIP/2.0/UDP i\r\n"));
}

#[test]
fn oc_is_found_in_lower_vias() {
    let may = |headers: &str| with(headers, |message| message.may_have_oc_below());
    assert!(may("Via: SIP/2.0/UDP h\r\nv: SIP/2.0/UDP i; OC=7\r\n"));
    assert!(may("v: SIP/2.0/UDP h\r\nv: SIP/2.0/UDP i\r\nVia: SIP/2.0/UDP j;oC\r\n"));
    assert!(may(
        "Via: SIP/2.0/UDP a, SIP/2.0/UDP a-rather-long-name-of-a-host.example;branch=z9hG4bK;oC=1\r\n"
    ));
    assert!(may("Via: SIP/2.0/UDP a,\r\n SIP/2.0/UDP b;oc\r\n"));
    assert!(!may("Via: SIP/2.0/UDP h;oc\r\nv: SIP/2.0/UDP i;branch=z9hG4bK1\r\n"));
    assert!(!may("Via: SIP/2.0/UDP h;branch=z9hG4bKo-c\r\nOc: oc\r\n") && !may("Subject: oc\r\n"));
}

#[test]
fn first_value_is_that_of_first_line() {
    with("Subject:  a b \r\ns: c\r\n", |message| {
        assert_eq!(message.first_value(HeaderName::Subject), b"a b ");
        assert_eq!(message.first_value(HeaderName::CallId), b"");
    });
}
