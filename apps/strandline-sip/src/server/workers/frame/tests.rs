#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

#[test]
fn what_is_written_is_read() {
    let mut wire = frame(&ToSupervisor::Commit { number: 7 }, b"changes").unwrap();
    wire.extend(frame(&ToSupervisor::Drained, b"").unwrap());
    let mut rest = wire.as_slice();
    assert_eq!(read(&mut rest).unwrap(), (ToSupervisor::Commit { number: 7 }, b"changes".to_vec()));
    assert_eq!(read(&mut rest).unwrap(), (ToSupervisor::Drained, Vec::new()));
    assert!(read::<ToSupervisor>(&mut rest).is_err());
}

#[test]
fn a_part_of_one_is_none() {
    let wire = frame(&ToWorker::Changes { number: 1, worker: 2 }, b"changes").unwrap();
    for len in 0..wire.len() {
        assert!(read::<ToWorker>(&mut &wire[..len]).is_err());
    }
}

proptest! {
    #[test]
    fn anything_else_is_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        // Short input can't be a message by chance, because a head contains a name.
        prop_assert!(read::<ToWorker>(&mut bytes.as_slice()).is_err());
    }
}
