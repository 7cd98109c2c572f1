use super::*;

#[test]
fn sockets_that_listen_are_seen() {
    let header = "  sl  local_address rem_address   st tx_queue rx_queue\n";
    let line = |state: &str| format!("{header}   0: 00000000:1451 00000000:0000 {state} 00000000:00000000\n");
    assert!(!listens(header));
    assert!(listens(&line("0A")) && listens(&line("07")));
    assert!(!listens(&line("01")));
}
