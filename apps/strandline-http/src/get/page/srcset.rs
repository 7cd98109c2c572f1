//! The attribute `srcset`: images of different sizes (HTML section 4.8.4.2.1).

/// Returns the URLs of the candidates.
pub(super) fn urls(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|letter: char| letter.is_ascii_whitespace() || letter == ',');
        let end = rest.find(|letter: char| letter.is_ascii_whitespace()).unwrap_or(rest.len());
        let (url, after) = rest.split_at_checked(end)?;
        let bare = url.trim_end_matches(',');
        // A comma at the end of the URL ends the candidate, one within belongs to the URL.
        rest = if bare.len() < url.len() { after } else { after_descriptors(after) };
        Some(bare).filter(|url| !url.is_empty())
    })
}

/// Skips descriptors up to a comma that isn't in parentheses.
fn after_descriptors(text: &str) -> &str {
    let mut depth = 0_u32;
    for (at, letter) in text.char_indices() {
        match letter {
            ',' if depth == 0 => return text.get(at + 1..).unwrap_or_default(),
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    ""
}
