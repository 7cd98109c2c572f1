//! Prose, as far as a machine can judge it: the width of Markdown and of comments, how doc comments begin,
//! how long names of tests are.

use crate::tree::Violation;

/// The most columns of a line of Markdown. Tables and code may be wider, and lines that end in a link.
pub(super) const COLUMNS_MAX: usize = 100;

/// The most columns of a line of a comment. Tables, code and targets of links may be wider.
pub(super) const COMMENT_COLUMNS_MAX: usize = 120;

/// The most words of a test's name.
pub(super) const WORDS_MAX: usize = 8;

/// Beginnings that a reader of one doc comment alone can't understand.
const DANGLING: [&str; 3] = ["The same", "And", "That"];

/// Beginnings in other words than everywhere else, with the right ones.
const STILTED: [(&str, &str); 1] = [("Tells whether", "Whether")];

/// Lines of Markdown that are too wide.
pub(super) fn check_markdown(name: &str, content: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in (1..).zip(content.lines()) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let code = fenced || line.starts_with("    ");
        let table = line.trim_start().starts_with('|');
        let columns = line.chars().count();
        if columns > COLUMNS_MAX && !code && !table && !ends_in_link(line) {
            let message = format!("{columns} columns: wrap at {COLUMNS_MAX}");
            found.push(Violation::new(name, number, message));
        }
    }
    found
}

/// Whether all that is beyond the last column belongs to one link, which can't be wrapped.
fn ends_in_link(line: &str) -> bool {
    let Some((limit, _)) = line.char_indices().nth(COLUMNS_MAX) else {
        return true;
    };
    let start = line[..limit].rfind(' ').map_or(0, |space| space + 1);
    let last = &line[start..];
    !last.contains(' ') && (last.contains("](") || last.contains("://"))
}

/// Lines of comments that are too wide.
pub(super) fn check_comments(name: &str, content: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in (1..).zip(content.lines()) {
        let Some(text) = line.trim_start().strip_prefix("//") else {
            fenced = false;
            continue;
        };
        let text = text.trim_start_matches(['/', '!']).trim_start();
        fenced ^= text.starts_with("```");
        let is_target = text.starts_with('[') && text.contains("]: ");
        let may_be_wide = fenced || is_target || text.starts_with('|') || !text.contains(' ');
        let columns = line.chars().count();
        if columns > COMMENT_COLUMNS_MAX && !may_be_wide {
            let message = format!("a comment of {columns} columns: wrap at {COMMENT_COLUMNS_MAX}");
            found.push(Violation::new(name, number, message));
        }
    }
    found
}

/// Doc comments that need what stands before them, and tests whose names are sentences.
pub(super) fn check_rust(name: &str, content: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let (mut in_docs, mut is_test) = (false, false);
    for (number, line) in (1..).zip(content.lines()) {
        let line = line.trim_start();
        let docs = line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! "));
        if let Some(first) = docs.filter(|_| !in_docs).and_then(dangling) {
            let message = format!(
                "a doc comment begins with \"{first}\": say what it is about, so that it stands alone"
            );
            found.push(Violation::new(name, number, message));
        }
        if let Some((first, right)) = docs.filter(|_| !in_docs).and_then(stilted) {
            let message = format!("a doc comment begins with \"{first}\": write \"{right}\"");
            found.push(Violation::new(name, number, message));
        }
        in_docs = line.starts_with("///") || line.starts_with("//!");
        if is_test_attribute(line) {
            is_test = true;
        } else if let Some(test) = function(line).filter(|_| is_test) {
            is_test = false;
            let words = words(test);
            if words > WORDS_MAX {
                let message =
                    format!("test `{test}` has {words} words: name what it tests, at most {WORDS_MAX}");
                found.push(Violation::new(name, number, message));
            }
        }
    }
    found
}

/// Words of a test's name. Numbers don't count, nor does the word before the number of an RFC's section.
fn words(test: &str) -> usize {
    let numbered = test.strip_prefix("section_").unwrap_or(test);
    numbered.split('_').filter(|word| word.contains(char::is_alphabetic)).count()
}

fn dangling(text: &str) -> Option<&'static str> {
    DANGLING.into_iter().find(|first| begins_with(text, first))
}

fn stilted(text: &str) -> Option<(&'static str, &'static str)> {
    STILTED.into_iter().find(|(first, _)| begins_with(text, first))
}

/// Whether a text begins with these whole words.
fn begins_with(text: &str, words: &str) -> bool {
    text.strip_prefix(words).is_some_and(|rest| rest.starts_with(|c: char| !c.is_alphanumeric()))
}

/// `#[test]`, `#[tokio::test]`, `#[tokio::test(...)]`.
pub(super) fn is_test_attribute(line: &str) -> bool {
    let name = line.strip_prefix("#[").and_then(|rest| rest.split(['(', ']']).next());
    name.is_some_and(|name| name == "test" || name.ends_with("::test"))
}

pub(super) fn function(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
    rest.split(['(', '<']).next()
}
