use super::one_line;

#[test]
fn events_are_lines_without_control_characters() {
    assert_eq!(one_line(b"WARN refused user=bob\n"), "WARN refused user=bob\n");
    let forged = "reason=\u{1b}]0;title\u{7}\u{9b}2J\r\nERROR made up\u{202e}\n";
    assert_eq!(
        one_line(forged.as_bytes()),
        "reason=\\u001b]0;title\\u0007\\u009b2J\\u000d\\nERROR made up\\u202e\n"
    );
    assert_eq!(one_line(b"half \xff"), "half \u{fffd}");
}
