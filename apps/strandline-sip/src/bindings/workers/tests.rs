#![allow(clippy::unwrap_used)]

/// Checks that all lines can be read.
fn stamped(state: &[u8]) -> Vec<u8> {
    let (stamped, unreadable) = super::stamped(state);
    assert_eq!(unreadable, 0);
    stamped
}

fn unite(states: &[(&str, &[u8])]) -> Vec<u8> {
    let (united, unreadable) = super::unite(states);
    assert_eq!(unreadable, 0);
    united
}

const ALICE: &[u8] = b"sip:alice@192.0.2.1\t\tc1\t\t\t1\t2000000000\t1000\t0\t-\tudp\t0\t192.0.2.1:5060";
const BOB: &[u8] = b"sip:alice@192.0.2.2\t\tc2\t\t\t1\t2000000000\t1000\t0\to\ttcp\t65\t192.0.2.2:5060";

fn lines(parts: &[(&[u8], &str)]) -> Vec<u8> {
    parts.iter().flat_map(|(line, rest)| [line, rest.as_bytes(), b"\n"].concat()).collect()
}

#[test]
fn missing_stamps_are_added_and_removed() {
    let plain = lines(&[(ALICE, ""), (BOB, "")]);
    let with_stamps = stamped(&plain);
    assert_eq!(with_stamps, lines(&[(ALICE, "\t1\t\t0"), (BOB, "\t2\t\t0")]));
    assert_eq!(unite(&[("a", &with_stamps)]), plain);
}

#[test]
fn numbers_of_temporary_gruus_stay() {
    let plain = lines(&[(ALICE, "\t0\t\t77")]);
    assert_eq!(unite(&[("a", &stamped(&plain))]), plain);
}

#[test]
fn later_binding_wins_among_workers() {
    let first = lines(&[(ALICE, "\t10\tx"), (BOB, "\t11\tx")]);
    let moved = String::from_utf8(ALICE.to_vec()).unwrap().replace("c1", "c9");
    let second = lines(&[(moved.as_bytes(), "\t20\tx"), (b"\tremoved\ta", "\t11\t2000000000")]);
    let expected = lines(&[(moved.as_bytes(), "")]);
    assert_eq!(unite(&[("a", &first), ("b", &second)]), expected);
    assert_eq!(unite(&[("b", &second), ("a", &first)]), expected);
}

#[test]
fn different_contacts_of_different_workers_are_all_there() {
    let (first, second) = (lines(&[(ALICE, "\t10\tx")]), lines(&[(BOB, "\t5\tx")]));
    assert_eq!(unite(&[("a", &first), ("b", &second)]), lines(&[(ALICE, ""), (BOB, "")]));
}

#[test]
fn unreadable_lines_are_counted() {
    let text = lines(&[(ALICE, ""), (b"no binding", "")]);
    let cut = text.get(..text.len() - 1).unwrap();
    assert_eq!(super::stamped(&text), (lines(&[(ALICE, "\t1\t\t0")]), 1));
    assert_eq!(super::unite(&[("a", cut), ("b", &text)]), (lines(&[(ALICE, "")]), 2));
}
