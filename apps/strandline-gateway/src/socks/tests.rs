use super::{Parsed, code, failure, greeting, request, success};
use crate::protocol::Reason;

#[test]
fn greetings_of_clients_are_read() {
    assert_eq!(greeting(&[5, 1, 0]), Parsed::Whole(true, 3));
    assert_eq!(greeting(&[5, 2, 2, 0, 9]), Parsed::Whole(true, 4));
    assert_eq!(greeting(&[5, 1, 2]), Parsed::Whole(false, 3));
    assert_eq!(greeting(&[4, 1]), Parsed::Wrong(1));
    for part in [&[][..], &[5], &[5, 2, 0]] {
        assert_eq!(greeting(part), Parsed::Partial);
    }
}

#[test]
fn requests_name_addresses_and_names() {
    for (bytes, text) in [
        (&[5, 1, 0, 1, 192, 0, 2, 1, 0, 80][..], "192.0.2.1:80"),
        (&[5, 1, 0, 3, 4, b'a', b'.', b'b', b'c', 1, 187], "a.bc:443"),
        (&[5, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 80], "[::1]:80"),
    ] {
        assert_eq!(request(bytes), Parsed::Whole(text.parse().unwrap(), bytes.len()));
        for end in 0..bytes.len() {
            assert_eq!(request(&bytes[..end]), Parsed::Partial, "{end} bytes of {text}");
        }
    }
}

#[test]
fn other_requests_are_refused() {
    assert_eq!(request(&[5, 2, 0, 1]), Parsed::Wrong(7));
    assert_eq!(request(&[5, 1, 0, 9]), Parsed::Wrong(8));
    assert_eq!(request(&[5, 1, 0, 3, 1, b' ', 0, 80]), Parsed::Wrong(1));
    assert_eq!(request(&[5, 1, 0, 1, 1, 1, 1, 1, 0, 0]), Parsed::Wrong(1));
}

#[test]
fn replies_have_the_codes_of_reasons() {
    assert_eq!(success(None), [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        success(Some("[::1]:258".parse().unwrap()))[3..],
        [4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2]
    );
    assert_eq!(failure(code(Reason::Refused))[1], 5);
    assert_eq!(failure(code(Reason::NotAllowed))[1], 2);
    assert_eq!(failure(code(Reason::Limit))[1], 1);
}
