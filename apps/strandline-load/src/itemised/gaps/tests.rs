use super::*;

#[test]
fn data_chunks_are_found_behind_others() {
    let mut packet = vec![0; HEADER];
    packet.extend([3, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]); // SACK
    packet.extend([0, 3, 0, 17, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, b'x', 0, 0, 0]);
    packet.extend([0, 3, 0, 17, 0, 0, 1, 3]);
    assert_eq!(tsns(&packet).collect::<Vec<_>>(), [0x102, 0x103]);
    assert_eq!(tsns(&packet[..14]).count(), 0);
}

#[test]
fn only_the_first_after_arming_is_lost() {
    let mut loss = Loss::default();
    let pass = |tsn: u8, loss: &mut Loss| {
        let mut bytes = vec![0; HEADER];
        bytes.extend([0, 3, 0, 17, 0, 0, 0, tsn]);
        loss.fate(&Passing::new(CLIENT, SERVER, &bytes))
    };
    assert_eq!(pass(1, &mut loss), Fate::Deliver);
    loss.armed = true;
    assert_eq!(
        [2, 3, 2, 4, 3].map(|tsn| pass(tsn, &mut loss) == Fate::Drop),
        [true, false, true, false, false]
    );
    assert_eq!((loss.lost, loss.highest), (Some(2), Some(4)));
}
