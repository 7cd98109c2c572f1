//! Checks of a file's text, line by line.

use crate::tree::Violation;

/// Maximum number of lines of a source file.
pub(super) const FILE_LINES_MAX: usize = 600;

/// Extensions of source files, to which the line limit applies.
const SOURCES: [&str; 7] = [".rs", ".c", ".h", ".go", ".py", ".sh", ".bash"];

/// Words that are not allowed in the repository, with their replacements. Each is put together from two
/// halves, so that this table doesn't match itself.
const FORBIDDEN: [(&str, &str, &str); 12] = [
    ("/wo", "rk/", "a path of one machine: make it relative to the repository"),
    ("/fa", "rm/", "a path of one machine: make it relative to the repository"),
    ("/ho", "me/", "a path of one machine: make it relative or use $HOME"),
    ("/ro", "ot/", "a path of one machine: make it relative or use $HOME"),
    ("/Use", "rs/", "a path of one machine: make it relative or use $HOME"),
    ("TO", "DO", "unfinished work: finish it, or tell in the docs what is not there"),
    ("FIX", "ME", "a known fault: mend it, or tell in the docs what does not work"),
    ("todo", "!(", "unfinished work: finish it"),
    ("unimplemented", "!(", "unfinished work: finish it"),
    (
        "#[ign",
        "ore",
        "a test that doesn't run: mend it, or put it behind a feature that a make target switches on",
    ),
    ("db", "g!(", "left over from debugging: remove it"),
    ("<<<<", "<<< ", "a merge conflict: resolve it"),
];

pub(super) fn check(name: &str, content: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let generated = name.ends_with(".lock") || name.ends_with("go.sum");
    // Captured messages are kept byte for byte.
    let captured = name.ends_with(".dat");
    if generated || captured || content.is_empty() {
        return found;
    }
    let lines = content.lines().count();
    if SOURCES.iter().any(|ending| name.ends_with(ending)) && lines > FILE_LINES_MAX {
        let message = format!("the file has {lines} lines: split it by concern, at most {FILE_LINES_MAX}");
        found.push(Violation::new(name, FILE_LINES_MAX + 1, message));
    }
    if !content.ends_with('\n') {
        found.push(Violation::new(name, lines, "no newline at the end of the file: add one"));
    }
    if content.ends_with("\n\n") {
        found.push(Violation::new(name, lines, "empty lines at the end of the file: remove them"));
    }
    let of_tests = is_of_tests(name);
    let mut before = "";
    for (number, line) in (1..).zip(content.split('\n')) {
        found.extend(check_line(name, number, line));
        if of_tests && sleeps(line) && !before.contains(MAY_SLEEP) {
            let message = format!(
                "a test sleeps: wait for what must happen, or say why it can't in a line `{MAY_SLEEP}...` before it"
            );
            found.push(Violation::new(name, number, message));
        }
        before = line;
    }
    found
}

/// Prefix of the comment that a test needs on the line before it sleeps.
const MAY_SLEEP: &str = "// Sleeps because ";

/// Returns whether a Rust file contains only tests and their helpers.
fn is_of_tests(name: &str) -> bool {
    name.ends_with(".rs")
        && (name.starts_with("tests/") || name.contains("/tests/") || name.ends_with("/tests.rs"))
}

/// Returns whether a line calls `sleep` or `sleep_until`, in virtual time or not. Methods of that name don't
/// count.
fn sleeps(line: &str) -> bool {
    ["sleep", "sleep_until"].iter().any(|function| {
        let call = format!("{function}(");
        line.match_indices(&call).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            before.is_none_or(|character| !character.is_alphanumeric() && !"_.\"".contains(character))
        })
    })
}

fn check_line(name: &str, number: usize, line: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    if line.ends_with('\r') {
        found.push(Violation::new(name, number, "CR at the end of the line: use LF alone"));
    } else if line.ends_with([' ', '\t']) {
        found.push(Violation::new(name, number, "white space at the end of the line: remove it"));
    }
    for (first, second, right) in FORBIDDEN {
        let word = format!("{first}{second}");
        if line.contains(&word) {
            found.push(Violation::new(name, number, format!("`{word}` is {right}")));
        }
    }
    found
}
