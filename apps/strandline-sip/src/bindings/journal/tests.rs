#![allow(clippy::unwrap_used)]

use super::*;

fn changes() -> Vec<u8> {
    let mut journal = Journal::default();
    for aor in ["alice", "bob", "carol"] {
        journal.record_with(aor.as_bytes(), |out| out.extend_from_slice(b"some state\n"));
    }
    journal.as_bytes().to_vec()
}

fn users(bytes: &[u8]) -> usize {
    Journal::read(bytes).count()
}

#[test]
fn only_sealed_entries_are_whole() {
    let (plain, sealed) = (changes(), Journal::sealed(&changes()));
    let cut = Fault::Cut { whole: 3, at: plain.len(), len: plain.len() };
    assert_eq!((Journal::check(&plain), Journal::check(&sealed)), (Err(cut), Ok(())));
    assert_eq!((users(&plain), users(&sealed)), (3, 3));
}

#[test]
fn every_flipped_bit_is_found() {
    let sealed = Journal::sealed(&changes());
    for (at, bit) in (0..sealed.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut damaged = sealed.clone();
        *damaged.get_mut(at).unwrap() ^= 1 << bit;
        assert!(Journal::check(&damaged).is_err(), "bit {bit} of byte {at}");
    }
}

#[test]
fn every_cut_is_found() {
    let (plain, one) = (changes(), changes().len() / 3);
    let sealed = Journal::sealed(&plain);
    for len in 0..sealed.len() {
        let result = Journal::check(sealed.get(..len).unwrap());
        let whole = plain_ends(&plain).iter().filter(|end| **end <= len).count();
        match result {
            Err(Fault::Cut { whole: found, .. }) => assert_eq!(found, whole),
            Err(fault) => assert!(fault == Fault::Empty && len < one + 10 || fault == Fault::Checksum),
            Ok(()) => panic!("{len} bytes"),
        }
    }
}

/// The end of each change.
fn plain_ends(plain: &[u8]) -> Vec<usize> {
    let mut end = 0;
    let ends = Journal::read(plain).map(|(aor, state)| {
        end += 8 + aor.len() + state.len();
        end
    });
    ends.collect()
}
