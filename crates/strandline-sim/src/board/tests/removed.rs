//! Addresses that are removed and come back.

use super::*;

/// Sends TSNs from 1 on to an address, as many as this, and removes it. It comes back with a round-trip time of 10 ms.
fn comes_back(count: u32) -> Board {
    let mut board = in_flight(count);
    board.on_removed(TO.into());
    board.set_times(at(0), TO.into(), Some(Duration::from_millis(10)), Duration::from_secs(1));
    board
}

/// What was sent before the removal may be acknowledged before it, between removal and return, or later.
#[test]
fn acknowledgements_of_earlier_data_count_for_nothing() {
    let mut board = in_flight(2);
    hears(&mut board, 10, 1, &[]);
    board.on_removed(TO.into());
    assert_eq!(board.take_delivered(TO.into()), (0, 0));
    hears(&mut board, 11, 2, &[]);
    assert_eq!(board.take_delivered(TO.into()), (0, 0));
    sends(&mut board, 20, 3).expect("new");
    hears(&mut board, 30, 3, &[]);
    assert_eq!(board.take_delivered(TO.into()), (BYTES, 1));
}

/// A tail-loss probe is due two round trips after the data of the returned address.
#[test]
fn acknowledgements_of_earlier_data_delay_no_probe() {
    let mut board = comes_back(1);
    sends(&mut board, 1, 2).expect("new");
    hears(&mut board, 15, 1, &[]);
    sends(&mut board, 21, 2).expect("a probe");
}

/// A chunk that was sent before the removal and not since opens no gap. Its arrival begins no other one either.
#[test]
fn earlier_data_opens_no_gap() {
    let mut board = comes_back(1);
    for tsn in 2..=9 {
        sends(&mut board, 1, tsn).expect("new");
    }
    board.set_mtu_min(100_000);
    // Three SACKs report a further chunk each behind TSN 2. The last one withdraws another, and acknowledges TSN 1.
    hears(&mut board, 11, 0, &[(3, 3)]);
    hears(&mut board, 11, 0, &[(3, 4)]);
    hears(&mut board, 11, 1, &[(3, 4)]);
    assert!(board.behind.are_many(TO.into(), 100_000));
}

/// A chunk that went to the address before the removal takes no room of the packet after T3-rtx.
#[test]
fn time_out_passes_over_earlier_data() {
    let mut board = comes_back(1);
    for tsn in [2, 3] {
        sends(&mut board, 1, tsn).expect("new");
    }
    board.excuse_first(TO.into(), 1500);
    assert_eq!(board.in_flight_least(at(2), TO.into(), Recovery::Rack, 0), BYTES, "TSN 3");
}

/// A chunk that was retransmitted as lost just before the removal shows no loss of the returned address.
#[test]
fn earlier_losses_are_forgotten() {
    let mut board = five();
    hears(&mut board, 10, 0, &[(2, 4)]);
    sends(&mut board, 10, 1).expect("lost");
    board.on_removed(TO.into());
    assert_eq!(board.take_lost(TO.into()), None);
}
