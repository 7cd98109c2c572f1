#![allow(clippy::unwrap_used)]

use super::*;

fn gruus() -> Gruus {
    Gruus::new(&[7; 16], &[1; 64])
}

fn user(gruus: &Gruus, number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    gruus.write_user(number, &mut out);
    out
}

#[test]
fn temporary_gruu_needs_its_key() {
    let gruus = gruus();
    let text = user(&gruus, 0x0123_4567_89ab_cdef);
    assert!(text.starts_with(b"tgruu."));
    assert_eq!(text.len(), 6 + 38);
    assert_eq!(gruus.read(&text), Some(0x0123_4567_89ab_cdef));
    // After a restart, and at other nodes.
    assert_eq!(Gruus::new(&[7; 16], &[9; 64]).read(&text), Some(0x0123_4567_89ab_cdef));
    assert_eq!(Gruus::new(&[8; 16], &[1; 64]).read(&text), None);
}

#[test]
fn what_was_touched_is_none() {
    let gruus = gruus();
    let text = user(&gruus, 42);
    for at in 6..text.len() - 1 {
        let mut forged = text.clone();
        forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
        assert_eq!(gruus.read(&forged), None, "{at}");
    }
    for len in 0..text.len() {
        assert_eq!(gruus.read(text.get(..len).unwrap()), None, "{len}");
    }
    for long in [1, 2, 5, 500] {
        assert_eq!(gruus.read(&[&text[..], &vec![b'A'; long]].concat()), None, "{long}");
    }
    assert_eq!(gruus.read(b"bob"), None);
}

#[test]
fn two_of_one_instance_have_nothing_in_common() {
    let gruus = gruus();
    let (one, other) = (user(&gruus, 42), user(&gruus, 42));
    let same = one.iter().zip(&other).skip(6).filter(|(one, other)| one == other).count();
    assert!(same < 8, "{same} of 38 digits: by chance one in 64 is the same");
}

#[test]
fn gruu_numbers_are_nonzero_and_ordered() {
    let gruus = gruus();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..1000 {
        let (plain, ending) = (gruus.number(false), gruus.number(true));
        assert!(plain > 1 && plain % 2 == 0 && ending % 2 == 1);
        assert!(seen.insert(plain) && seen.insert(ending));
    }
}

#[test]
fn what_a_parameter_may_not_hold_is_escaped() {
    let mut out = Vec::new();
    escape(b"urn:uuid:f81d4fae-7dec a;b\"", &mut out);
    assert_eq!(out, b"urn:uuid:f81d4fae-7dec%20a%3Bb%22");
}
