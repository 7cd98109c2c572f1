use super::*;

#[test]
fn messages_say_what_to_do() {
    let refused = ConnectError::Ended(Ended::PeerAborted { cause: ErrorCause::None, reason: Bytes::new() });
    assert!(refused.to_string().contains("nothing listens"), "{refused}");
    let aborted = Ended::PeerAborted {
        cause: ErrorCause::UserInitiatedAbort,
        reason: Bytes::from_static(b"maintenance"),
    };
    assert_eq!(aborted.to_string(), "the peer aborted the association: aborted by its user (maintenance)");
    let binary =
        Ended::PeerAborted { cause: ErrorCause::ProtocolViolation, reason: Bytes::from_static(&[0, 255]) };
    assert_eq!(binary.to_string(), "the peer aborted the association: protocol violation (cause 13)");
    assert!(ConnectError::Ended(Ended::TimedOut).to_string().contains("encapsulation port"));
    let unknown = Ended::PeerAborted { cause: ErrorCause::from_code(77), reason: Bytes::new() };
    assert_eq!(unknown.to_string(), "the peer aborted the association: unknown cause 77");
}
