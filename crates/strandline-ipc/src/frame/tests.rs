use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Head {
    Commit { number: u64 },
    Drained,
}

#[test]
fn what_is_written_is_read() {
    let mut wire = frame(&Head::Commit { number: 7 }, b"changes").unwrap();
    wire.extend(frame(&Head::Drained, b"").unwrap());
    let mut rest = wire.as_slice();
    assert_eq!(read_frame(&mut rest).unwrap(), (Head::Commit { number: 7 }, b"changes".to_vec()));
    assert_eq!(read_frame(&mut rest).unwrap(), (Head::Drained, Vec::new()));
    assert!(read_frame::<Head>(&mut rest).is_err());
}

#[test]
fn part_of_a_frame_is_an_error() {
    let wire = frame(&Head::Commit { number: 1 }, b"changes").unwrap();
    for len in 0..wire.len() {
        assert!(read_frame::<Head>(&mut &wire[..len]).is_err());
    }
}

proptest! {
    #[test]
    fn anything_else_is_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        // Nothing that is short can be a frame by chance: a head has a name in it.
        prop_assert!(read_frame::<Head>(&mut bytes.as_slice()).is_err());
    }
}
