use super::*;

#[test]
fn headers_are_read_as_written() {
    let headers = [
        Header::Initial { source: 7, token: &[], records: b"hello" },
        Header::Initial { source: 7, token: &[1; TOKEN_LEN], records: b"hello" },
        Header::Retry { destination: 7, token: &[1; TOKEN_LEN] },
        Header::Handshake { destination: 7, source: 8, records: b"hello" },
        Header::Data { destination: u64::MAX, record: b"data" },
        Header::Reset { destination: 0x0102_0304_0506_0708, token: &[1; 16] },
        Header::Plain { records: &[22, 1, 2] },
    ];
    for header in headers {
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        assert_eq!(Header::parse(&bytes), Some(header));
    }
}

#[test]
fn a_reset_ends_with_its_receivers_bits() {
    let (client, server) = (0x1111_2222_3333_abcd, with_bits_of(0x1111_2222_3333_abcd, u64::MAX));
    let mut bytes = Vec::new();
    Header::Reset { destination: server, token: &[] }.write(&mut bytes);
    assert_eq!(bytes[7..9], Cid::to_be_bytes(client)[6..]);
}

#[test]
fn what_is_cut_off_or_unknown_is_nothing() {
    for datagram in
        [&[][..], &[8], &[8, 0, 0, 0, 0, 0, 0, 0, 1], &[10, 0, 0, 0, 0, 0, 0, 0, 1, 2], &[7; 40], &[64; 40]]
    {
        assert_eq!(Header::parse(datagram), None, "{datagram:?}");
    }
    let mut long_token = vec![8, 0, 0, 0, 0, 0, 0, 0, 1, 200];
    long_token.extend_from_slice(&[0; 100]);
    assert_eq!(Header::parse(&long_token), None);
}
