use super::*;

/// How the error at a place of a text is printed.
fn printed(text: &str, span: Range<usize>) -> String {
    let place = Place::new(span, &Lines::of(text));
    Malformed { place: Some(place), message: "wrong".to_owned() }.to_string()
}

#[test]
fn the_part_of_the_line_is_marked() {
    let text = "one = 1\ntwö = 2 three\n";
    let expected = "TOML parse error at line 2, column 9\n  |\n2 | twö = 2 three\n  |         ^^^^^\nwrong\n";
    assert_eq!(printed(text, 17..22), expected);
    // What goes on in the next line is marked to the end of this one.
    let expected = "TOML parse error at line 1, column 7\n  |\n1 | one = 1\n  |       ^\nwrong\n";
    assert_eq!(printed(text, 6..20), expected);
    // The end belongs to the last line.
    let end = "TOML parse error at line 2, column 14\n  |\n2 | twö = 2 three\n  |              ^\nwrong\n";
    assert_eq!(printed(text, text.len()..text.len()), end);
    assert_eq!(printed("", 0..0), "TOML parse error at line 1, column 1\n  |\n1 | \n  | ^\nwrong\n");
    // Nothing that a terminal would obey.
    assert!(printed("a\u{1b}[2J\tb\n", 0..1).contains("1 | a [2J b\n"));
}

#[test]
fn long_lines_are_cut_around_the_error() {
    let text = format!("{} = wrong{}\n", "a".repeat(1000), "b".repeat(1000));
    let said = printed(&text, 1003..1004);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "TOML parse error at line 1, column 1004");
    assert_eq!(lines[2].chars().count(), 4 + 1 + BEFORE_MAX + AFTER_MAX + 1, "{said}");
    assert!(lines[2].starts_with("1 | …aaa") && lines[2].ends_with("bbb…"), "{said}");
    let mark = lines[3].find('^').unwrap();
    assert_eq!(lines[2].chars().nth(mark), Some('w'), "{said}");
    assert!(!printed(&text, 0..1).contains("| …"));
    let message = cut(&"é".repeat(5000));
    assert_eq!((message.chars().count(), message.chars().last()), (MESSAGE_MAX + 1, Some(CUT)));
}

#[test]
fn lines_are_numbered_in_all_blocks() {
    let text = "0123456\n".repeat(3000);
    let lines = Lines::of(&text);
    for at in [0, 7, 8, 4095, 4096, 4097, 8191, 8192, 20_000, text.len() - 1] {
        assert_eq!(lines.number(at), at / 8 + 1, "{at}");
    }
    assert_eq!((lines.number(text.len()), lines.number(usize::MAX)), (3001, 3001));
    assert_eq!((Lines::of("").number(0), Lines::of("").number(5)), (1, 1));
}
