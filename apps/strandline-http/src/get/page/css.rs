//! The URLs of a style sheet: `url()` and `@import` (CSS Syntax Level 3, as far as they need it).

/// Calls a function with each URL, and with whether it is that of an imported style sheet.
pub(super) fn urls(text: &str, found: &mut impl FnMut(&str, bool)) {
    let mut rest = Rest { text, at: 0 };
    // What the rule at hand is: its URLs mean different things.
    let mut rule = Rule::Other;
    while let Some(letter) = rest.next() {
        match letter {
            b'/' if rest.eat("*") => rest.skip_past("*/"),
            b';' | b'{' | b'}' => rule = Rule::Other,
            b'@' => {
                rule = match rest.name() {
                    name if name.eq_ignore_ascii_case("import") => Rule::Import,
                    name if name.eq_ignore_ascii_case("namespace") => Rule::Namespace,
                    _ => Rule::Other,
                }
            }
            b'"' | b'\'' => {
                let string = rest.string(letter);
                if rule == Rule::Import {
                    found(&string, true);
                    rule = Rule::Imported;
                }
            }
            b'\\' => {
                rest.next();
            }
            _ if is_name(letter) => {
                rest.at -= 1;
                let name = rest.name();
                if name.eq_ignore_ascii_case("url") && rest.eat("(") {
                    let url = rest.url();
                    match rule {
                        Rule::Namespace => {}
                        Rule::Import => {
                            found(&url, true);
                            rule = Rule::Imported;
                        }
                        Rule::Imported | Rule::Other => found(&url, false),
                    }
                }
            }
            _ => {}
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// `@import` before its URL.
    Import,
    /// `@import` after its URL.
    Imported,
    /// `@namespace`, whose URL is only a name.
    Namespace,
    Other,
}

/// Letters of names, those beyond ASCII included.
const fn is_name(letter: u8) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_') || !letter.is_ascii()
}

/// The text that is left. It is cut at ASCII letters only.
struct Rest<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Rest<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let letter = self.peek()?;
        self.at += 1;
        Some(letter)
    }

    fn eat(&mut self, wanted: &str) -> bool {
        let is_there = self.after().starts_with(wanted);
        if is_there {
            self.at += wanted.len();
        }
        is_there
    }

    fn after(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_past(&mut self, end: &str) {
        self.at = self.after().find(end).map_or(self.text.len(), |at| self.at + at + end.len());
    }

    /// Takes a name, which may be empty.
    fn name(&mut self) -> &'a str {
        let begin = self.at;
        while self.peek().is_some_and(is_name) {
            self.at += 1;
        }
        self.text.get(begin..self.at).unwrap_or_default()
    }

    /// Takes a string after its first quote. A line end, which isn't allowed, ends it.
    fn string(&mut self, quote: u8) -> String {
        let text = self.until(|letter| letter == quote || letter == b'\n');
        self.next();
        text
    }

    /// Takes the rest of `url(`, quoted or not.
    fn url(&mut self) -> String {
        while self.peek().is_some_and(|letter| letter.is_ascii_whitespace()) {
            self.at += 1;
        }
        match self.peek() {
            Some(quote @ (b'"' | b'\'')) => {
                self.at += 1;
                self.string(quote)
            }
            _ => {
                let url = self.until(|letter| letter == b')');
                self.next();
                url
            }
        }
    }

    /// Takes text up to a letter, and replaces escapes.
    fn until(&mut self, is_end: impl Fn(u8) -> bool) -> String {
        let mut taken = String::new();
        loop {
            let begin = self.at;
            while self.peek().is_some_and(|letter| letter != b'\\' && !is_end(letter)) {
                self.at += 1;
            }
            taken.push_str(self.text.get(begin..self.at).unwrap_or_default());
            if self.peek() != Some(b'\\') {
                return taken;
            }
            self.at += 1;
            taken.extend(self.escaped());
        }
    }

    /// Takes what follows a backslash: up to six hexadecimal digits and a space, or one character.
    fn escaped(&mut self) -> Option<char> {
        let after = self.after();
        let digits = after.bytes().take(6).take_while(u8::is_ascii_hexdigit).count();
        if digits == 0 {
            let letter = after.chars().next()?;
            self.at += letter.len_utf8();
            return Some(letter).filter(|letter| *letter != '\n');
        }
        self.at += digits;
        let number = after.get(..digits).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        if self.peek().is_some_and(|letter| letter.is_ascii_whitespace()) {
            self.at += 1;
        }
        Some(number.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}
