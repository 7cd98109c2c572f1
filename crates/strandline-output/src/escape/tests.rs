use super::*;

#[test]
fn terminals_get_no_control_characters() {
    assert_eq!(
        escape("\u{1b}]0;owned\u{7}\r\u{9b}2J\u{7f}"),
        "\\u001b]0;owned\\u0007\\u000d\\u009b2J\\u007f"
    );
    assert_eq!(escape("user\u{202e}txt.exe"), "user\\u202etxt.exe");
    for turns in ['\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{2066}', '\u{2069}'] {
        assert_eq!(escape(&turns.to_string()), format!("\\u{:04x}", u32::from(turns)));
    }
}

#[test]
fn plain_text_stays() {
    let text = "a table\tof many\nlines, \u{fc}nic\u{f6}de \u{1f4de}";
    assert!(matches!(escape(text), Cow::Borrowed(same) if same == text));
}
