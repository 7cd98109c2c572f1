#![allow(clippy::unwrap_used)]

use super::*;

/// A binding of an instance with a GRUU number, parsed from its stored form.
fn binding(instance: &str, gruu: u64, stamp: u64, expires_at: u64) -> Binding {
    let line = format!(
        "sip:b@192.0.2.1\t\tcall\t{instance}\t\t1\t{expires_at}\t1000\t0\t-\tudp\t0\t192.0.2.1:5060\t{stamp}\t\t{gruu}\n"
    );
    Binding::read(line.trim_end().as_bytes()).unwrap()
}

#[test]
fn a_number_survives_being_written() {
    let first = binding("a", 12, 0, 100);
    let mut line = Vec::new();
    first.write(&mut line);
    assert_eq!(Binding::read(line.trim_ascii_end()).unwrap(), first);
    assert_eq!(first.gruu, 12);
}

#[test]
fn uuids_compare_without_case() {
    assert!(is_same_instance(b"urn:uuid:AB", b"URN:uuid:ab"));
    assert!(is_same_instance(b"x", b"x"));
    assert!(!is_same_instance(b"x", b"X"));
    assert!(!is_same_instance(b"", b"x"));
}

#[test]
fn the_last_refreshed_is_the_first() {
    let all =
        [binding("a", 2, 5, 100), binding("a", 4, 9, 100), binding("a", 6, 7, 100), binding("b", 8, 99, 100)];
    let found: Vec<u64> = bindings_of(&all, b"a", 50).iter().map(|binding| binding.gruu).collect();
    assert_eq!(found, [4, 6, 2]);
    assert!(bindings_of(&all, b"a", 100).is_empty(), "expired");
    // Without stamps, the last one of the list counts.
    let all = [binding("a", 2, 0, 100), binding("a", 4, 0, 100)];
    assert_eq!(bindings_of(&all, b"a", 50)[0].gruu, 4);
    assert!(is_later(&all, 1, 0) && !is_later(&all, 0, 1));
}

#[test]
fn numbers_of_two_nodes_both_count() {
    let both = [binding("a", 2, 5, 100), binding("a", 4, 9, 100)];
    assert_eq!(instance_of(&both, 2, 50), Some(&b"a"[..]));
    assert_eq!(instance_of(&both, 4, 50), Some(&b"a"[..]));
    // An odd number invalidates the earlier ones.
    let ended = [binding("a", 2, 5, 100), binding("a", 5, 9, 100)];
    assert_eq!(instance_of(&ended, 2, 50), None);
    assert_eq!(instance_of(&ended, 5, 50), Some(&b"a"[..]));
    let before = [binding("a", 2, 9, 100), binding("a", 5, 5, 100)];
    assert_eq!(instance_of(&before, 2, 50), Some(&b"a"[..]));
    assert_eq!(instance_of(&ended, 5, 100), None, "expired");
    assert_eq!(instance_of(&ended, 77, 50), None);
}
