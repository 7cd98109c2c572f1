use super::*;

#[test]
fn codes_and_names_match() {
    for code in 0..=u16::MAX {
        assert_eq!(ErrorCause::from_code(code).code(), code);
    }
    for (code, cause, name) in NAMED {
        assert_eq!((cause.code(), cause.to_string().as_str()), (code, name));
    }
    assert_eq!(ErrorCause::from_code(3), ErrorCause::StaleCookie);
    assert_eq!(ErrorCause::from_code(11), ErrorCause::RestartWithNewAddresses);
    assert_eq!(ErrorCause::from_code(13), ErrorCause::ProtocolViolation);
    assert_eq!(ErrorCause::from_code(15), ErrorCause::Unknown(15));
}
