//! Escapes control characters in program output. A peer or a file may contain them to move a terminal's
//! cursor, change its title or hide text.

use std::borrow::Cow;

/// Returns the text with each control character except line feed and tab written as `\u001b`. Also escapes
/// the characters that change the direction of text. In JSON, where these occur only in strings, the escaped
/// form has the same meaning.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if is_escaped(char) {
            escaped.push_str(&format!("\\u{:04x}", u32::from(char)));
        } else {
            escaped.push(char);
        }
    }
    Cow::Owned(escaped)
}

fn is_escaped(char: char) -> bool {
    let turns = matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (char.is_control() && !matches!(char, '\n' | '\t'))
}

#[cfg(test)]
mod tests;
