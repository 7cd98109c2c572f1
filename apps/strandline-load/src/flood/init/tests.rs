use super::*;

#[test]
fn flood_packets_are_distinct_valid_inits() {
    let mut packets = Packets::new(7007, false).unwrap();
    let mut bytes = Vec::new();
    (0..3).for_each(|_| packets.write(&mut bytes));
    let each: Vec<&[u8]> = bytes.chunks(packets.len()).collect();
    assert_eq!(each.len(), 3);
    assert_ne!(each[0], each[1]);
    for packet in each {
        assert_eq!(packet[2..4], 7007_u16.to_be_bytes());
        assert_eq!((&packet[4..8], packet[12]), (&[0; 4][..], 1), "tag 0, INIT");
        let mut zeroed = packet.to_vec();
        zeroed[8..12].fill(0);
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &zeroed) as u32;
        assert_eq!(packet[8..12], sum.to_le_bytes());
    }
}

#[test]
fn plain_flood_has_equal_size_and_no_sctp() {
    let (init, mut plain) = (Packets::new(7, false).unwrap(), Packets::new(7, true).unwrap());
    let mut bytes = Vec::new();
    plain.write(&mut bytes);
    assert_eq!(bytes.len(), init.len());
    assert_eq!(bytes[..4], [0; 4]);
}
