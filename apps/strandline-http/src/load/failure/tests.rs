use bytes::Bytes;
use rustix::io::Errno;

use super::*;

#[test]
fn system_errors_have_the_classes_of_httperf() {
    let cases = [
        (Errno::CONNREFUSED, Class::Refused),
        (Errno::CONNRESET, Class::Reset),
        (Errno::PIPE, Class::Reset),
        (Errno::TIMEDOUT, Class::SocketTimeout),
        (Errno::MFILE, Class::NoDescriptor),
        (Errno::NFILE, Class::SystemFull),
        (Errno::ADDRNOTAVAIL, Class::NoAddress),
        (Errno::HOSTUNREACH, Class::Other),
    ];
    for (errno, class) in cases {
        let failure = Failure::connecting(&io::Error::from(errno));
        assert_eq!(failure.class, class, "{errno}");
        assert!(failure.is_counted);
    }
}

#[test]
fn associations_fail_in_the_same_classes() {
    let aborted = || Ended::PeerAborted { cause: strandline::ErrorCause::None, reason: Bytes::new() };
    let connecting = [
        (aborted(), Class::Refused),
        (Ended::Unreachable, Class::Refused),
        (Ended::TimedOut, Class::SocketTimeout),
        (Ended::NoRoute, Class::Other),
    ];
    for (ended, class) in connecting {
        assert_eq!(Failure::associating(&ended.into()).class, class);
    }
    let later =
        [(aborted(), Class::Reset), (Ended::ShutDown, Class::Reset), (Ended::TimedOut, Class::SocketTimeout)];
    for (ended, class) in later {
        assert_eq!(Failure::opening(&ended.into()).class, class);
    }
}

#[test]
fn classes_have_their_own_places() {
    for (place, class) in Class::ALL.into_iter().enumerate() {
        assert_eq!(class as usize, place, "{}", class.name());
    }
}
