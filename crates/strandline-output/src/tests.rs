use super::*;

#[test]
fn a_peers_escapes_are_not_printed() {
    let mut printed = Vec::new();
    let peer = "\u{1b}[2J\u{1b}]0;title\u{7}";
    write(&mut printed, format_args!("the peer says: {peer}\n")).unwrap();
    assert_eq!(printed, b"the peer says: \\u001b[2J\\u001b]0;title\\u0007\n");
}

#[test]
fn own_control_sequences_are_not_escaped() {
    let mut printed = Vec::new();
    clear(&mut printed).unwrap();
    write(&mut printed, format_args!("a table with \u{1b}[31m\n")).unwrap();
    assert_eq!(printed, b"\x1b[H\x1b[Ja table with \\u001b[31m\n");
}
