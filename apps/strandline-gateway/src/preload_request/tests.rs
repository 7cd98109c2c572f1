use super::{Outcome, REQUEST, Request, answer, parse};
use crate::protocol::Reason;

/// A request of kind 1 for 192.0.2.7:443 by a socket with the key 5, with 100 bytes of padding.
fn request() -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    bytes[..12].copy_from_slice(&[b'S', b'L', b'p', b'1', 1, 4, 1, 187, 192, 0, 2, 7]);
    bytes[31] = 5;
    bytes[35] = 100;
    bytes
}

#[test]
fn requests_are_parsed() {
    let to = "192.0.2.7:443".parse().unwrap();
    assert_eq!(parse(&request()), Some(Request::Connect { to, key: 5, padding: 100 }));
    let mut mapped = request();
    mapped[5] = 6;
    mapped[8..24].copy_from_slice(&"::ffff:192.0.2.7".parse::<std::net::Ipv6Addr>().unwrap().octets());
    assert_eq!(parse(&mapped), Some(Request::Connect { to, key: 5, padding: 100 }));
    let mut question = request();
    (question[4], question[35]) = (2, 0);
    assert_eq!(parse(&question), Some(Request::Ask { key: 5 }));
}

#[test]
fn other_bytes_are_not_requests() {
    // Another magic, kind, family, no port, octets behind those of IPv4, too much padding, padding of a question.
    for changes in [&[(0, 0)][..], &[(4, 3)], &[(5, 0)], &[(6, 0), (7, 0)], &[(12, 1)], &[(32, 1)], &[(4, 2)]]
    {
        let mut bytes = request();
        for (at, value) in changes {
            bytes[*at] = *value;
        }
        assert_eq!(parse(&bytes), None, "{changes:?}");
    }
}

#[test]
fn answers_have_destination_and_errno() {
    let to = "192.0.2.7:443".parse().unwrap();
    let bytes = answer(Some(to), Outcome::Failed(Reason::Refused));
    assert_eq!(bytes[..12], [b'S', b'L', b'p', b'1', 3, 4, 1, 187, 192, 0, 2, 7]);
    assert_eq!(bytes[24..], [0, 0, 0, 0, 0, 0, 0, 111], "ECONNREFUSED");
    assert_eq!(answer(None, Outcome::Unknown)[4..], [0; 28]);
}
