use super::*;

#[test]
fn what_has_begun_comes_before_what_begins() {
    let of = |line: &str| Urgency::of(format!("{line}\r\nVia: x\r\n\r\n").as_bytes());
    for line in
        ["SIP/2.0 200 OK", "ACK sip:a@b SIP/2.0", "BYE sip:a@b SIP/2.0", "CANCEL sip:a@b SIP/2.0", "nonsense"]
    {
        assert_eq!(of(line), Urgency::Begun, "{line}");
    }
    assert_eq!(of("REGISTER sip:b SIP/2.0"), Urgency::Register);
    for line in ["INVITE sip:a@b SIP/2.0", "MESSAGE sip:a@b SIP/2.0", "OPTIONS sip:a@b SIP/2.0"] {
        assert_eq!(of(line), Urgency::New, "{line}");
    }
    assert!(Urgency::ALL.is_sorted());
}
