use super::*;

/// The transaction ID of the examples in RFC 5769.
const ID: [u8; 12] = [0xb7, 0xe7, 0xa7, 0x01, 0xbc, 0x34, 0xd6, 0x86, 0xfa, 0x87, 0xdf, 0xae];

fn request(attributes: &[u8]) -> Vec<u8> {
    [&[0, 1, 0, attributes.len() as u8][..], &MAGIC, &ID, attributes].concat()
}

#[test]
fn the_addresses_of_rfc_5769() {
    let v4 = binding_answer(&request(&[]), "192.0.2.1:32853".parse().unwrap()).unwrap();
    assert_eq!(v4[..4], [0x01, 0x01, 0, 12]);
    assert_eq!((&v4[4..8], &v4[8..20]), (&MAGIC[..], &ID[..]));
    assert_eq!(v4[20..], [0x00, 0x20, 0x00, 0x08, 0x00, 0x01, 0xa1, 0x47, 0xe1, 0x12, 0xa6, 0x43]);
    let address = "[2001:db8:1234:5678:11:2233:4455:6677]:32853";
    let v6 = binding_answer(&request(&[]), address.parse().unwrap()).unwrap();
    let wanted = [
        0x00, 0x20, 0x00, 0x14, 0x00, 0x02, 0xa1, 0x47, 0x01, 0x13, 0xa9, 0xfa, 0xa5, 0xd3, 0xf1, 0x79, 0xbc,
        0x25, 0xf4, 0xb5, 0xbe, 0xd2, 0xb9, 0xd9,
    ];
    assert_eq!(v6[20..], wanted);
    // An IPv4 address as a dual-stack socket reports it.
    assert_eq!(binding_answer(&request(&[]), "[::ffff:192.0.2.1]:32853".parse().unwrap()).unwrap(), v4);
}

#[test]
fn optional_stun_attributes_are_skipped() {
    let from = "192.0.2.1:5060".parse().unwrap();
    // SOFTWARE with three letters, then FINGERPRINT.
    let optional = [0x80, 0x22, 0, 3, b'a', b'b', b'c', 0, 0x80, 0x28, 0, 4, 1, 2, 3, 4];
    assert_eq!(binding_answer(&request(&optional), from).unwrap()[..2], BINDING_SUCCESS);
    // CHANGE-REQUEST, which asks for a response from another address.
    let answer = binding_answer(&request(&[0, 3, 0, 4, 0, 0, 0, 6]), from).unwrap();
    assert_eq!(answer[..4], [0x01, 0x11, 0, 16]);
    assert_eq!(answer[20..], [0, 9, 0, 4, 0, 0, 4, 20, 0, 10, 0, 2, 0, 3, 0, 0]);
    let many: Vec<u8> = (1..=60).flat_map(|kind| [0, kind, 0, 0]).collect();
    assert_eq!(binding_answer(&request(&many), from).unwrap().len(), 20 + 16);
}

#[test]
fn what_is_no_binding_request_is_not_answered() {
    let from = "192.0.2.1:5060".parse().unwrap();
    let right = request(&[]);
    for (at, byte) in [(0, 1), (1, 2), (3, 4), (4, 0)] {
        let mut wrong = right.clone();
        wrong[at] = byte;
        assert_eq!(binding_answer(&wrong, from), None, "{at}");
    }
    for wrong in [&right[..19], &request(&[0x80, 0x22, 0, 9, 0]), &request(&[0x80, 0x22]), b""] {
        assert_eq!(binding_answer(wrong, from), None);
    }
    // The server's own response is not a request.
    assert_eq!(binding_answer(&binding_answer(&right, from).unwrap(), from), None);
}
