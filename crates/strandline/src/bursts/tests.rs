use super::*;

fn add(bursts: &mut Bursts, port: u16, packets: &[&[u8]]) {
    let room = bursts.room().unwrap();
    let bytes = packets.concat();
    room[..bytes.len()].copy_from_slice(&bytes);
    let transmit = Transmit {
        destination: ([127, 0, 0, 1], port).into(),
        source: None,
        len: bytes.len(),
        segment_size: packets[0].len(),
        fragment: None,
        ecn_capable: false,
    };
    assert_eq!(bursts.add(transmit), bytes);
}

/// Returns the port, segment size and bytes of each burst.
fn all(bursts: &Bursts) -> Vec<(u16, usize, Vec<u8>)> {
    bursts
        .iter()
        .map(|(burst, bytes)| (burst.destination.port(), burst.segment_size, bytes.to_vec()))
        .collect()
}

#[test]
fn equal_packets_to_one_address_form_a_burst() {
    let mut bursts = Bursts::new(true);
    add(&mut bursts, 1, &[b"abcd"]);
    add(&mut bursts, 1, &[b"efgh", b"ij"]);
    add(&mut bursts, 1, &[b"klmn"]);
    add(&mut bursts, 2, &[b"opqr"]);
    add(&mut bursts, 2, &[b"st"]);
    add(&mut bursts, 2, &[b"uv"]);
    let train = |port, text: &[u8], size| (port, size, text.to_vec());
    assert_eq!(
        all(&bursts),
        [train(1, b"abcdefghij", 4), train(1, b"klmn", 4), train(2, b"opqrst", 4), train(2, b"uv", 2)]
    );
}

#[test]
fn without_mixed_trains_each_burst_stays_by_itself() {
    let mut bursts = Bursts::new(false);
    add(&mut bursts, 1, &[b"abcd", b"efgh"]);
    add(&mut bursts, 1, &[b"klmn"]);
    assert_eq!(all(&bursts), [(1, 4, b"abcdefgh".to_vec()), (1, 4, b"klmn".to_vec())]);
}

#[test]
fn longer_or_fragmented_packets_stay_apart() {
    let mut bursts = Bursts::new(true);
    add(&mut bursts, 1, &[b"ab"]);
    add(&mut bursts, 1, &[b"cdef"]);
    let fragmented = |len| Transmit {
        destination: ([127, 0, 0, 1], 1).into(),
        source: None,
        len,
        segment_size: len,
        fragment: Some(576),
        ecn_capable: false,
    };
    bursts.add(fragmented(4));
    bursts.add(fragmented(4));
    assert_eq!(all(&bursts).len(), 4);
}

#[test]
fn sent_bursts_are_removed_and_others_kept() {
    let mut bursts = Bursts::new(true);
    add(&mut bursts, 1, &[b"ab"]);
    add(&mut bursts, 2, &[b"cd", b"ef", b"gh"]);
    add(&mut bursts, 3, &[b"ij"]);
    bursts.keep([0, 4]);
    assert_eq!(all(&bursts), [(2, 2, b"efgh".to_vec()), (3, 2, b"ij".to_vec())]);
    // A later burst goes behind it.
    add(&mut bursts, 4, &[b"kl"]);
    bursts.keep([0]);
    assert_eq!(all(&bursts), [(3, 2, b"ij".to_vec()), (4, 2, b"kl".to_vec())]);
    bursts.keep([0, 0]);
    assert!(bursts.is_empty());
}

#[test]
fn outbox_has_room_for_a_whole_burst() {
    let mut bursts = Bursts::new(true);
    let packet = vec![7; 1000];
    let mut count = 0;
    while let Some(room) = bursts.room() {
        assert_eq!(room.len(), BURST_BYTES);
        add(&mut bursts, count, &[&packet]);
        count += 1;
    }
    assert_eq!(count, 17, "as soon as there are 16 KiB");
    bursts.clear();
    for port in 0..BURSTS_MAX as u16 {
        add(&mut bursts, port, &[b"a"]);
    }
    assert!(bursts.room().is_none(), "one system call takes no more");
}
