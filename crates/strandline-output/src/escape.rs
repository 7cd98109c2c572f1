//! Control characters in what programs print: a peer or a file may have put them there to move a terminal's cursor, change its title or
//! hide text.

use std::borrow::Cow;

/// Returns the text with each control character as `\u001b`, except line feeds and tabs. Also escaped are the characters that change
/// the direction of text. In JSON, where these stand in strings only, the escaped form means the same.
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
    let turns = matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (char.is_control() && !matches!(char, '\n' | '\t'))
}

#[cfg(test)]
mod tests;
