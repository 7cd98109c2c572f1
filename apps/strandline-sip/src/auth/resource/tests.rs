use super::*;

#[test]
fn one_resource_in_several_spellings() {
    let same = |one: &str, other: &str| is_same(one.as_bytes(), other.as_bytes());
    for other in [
        "sip:example.com",
        "SIP:EXAMPLE.com",
        "sip:example.com:5060",
        "sip:example.com;transport=tcp",
        "sip:example.com;lr",
    ] {
        assert!(same("sip:example.com", other), "{other}");
        assert!(same(other, "sip:example.com"), "{other}");
    }
    assert!(same("sip:%62ob@example.com", "sip:bob@example.com;user=phone"));
    assert!(same("tel:+1-201-555-0123", "tel:+12015550123"));
    for other in [
        "sip:example.net",
        "sips:example.com",
        "sip:bob@example.com",
        "sip:example.com:5070",
        "sip:example.com;maddr=192.0.2.1",
        "*",
        "/",
        "",
    ] {
        assert!(!same("sip:example.com", other), "{other}");
    }
    assert!(!same("sip:Bob@example.com", "sip:bob@example.com"));
}
