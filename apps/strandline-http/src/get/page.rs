//! The objects of an HTML page: images, styles and scripts.

use url::Url;

/// Elements and the attributes that name what they load.
const ATTRIBUTES: [(&str, &str); 8] = [
    ("img", "src"),
    ("script", "src"),
    ("link", "href"),
    ("source", "src"),
    ("video", "poster"),
    ("embed", "src"),
    ("input", "src"),
    ("iframe", "src"),
];
/// Values of `rel` of links that a browser loads to show the page.
const LOADED: [&str; 4] = ["stylesheet", "icon", "preload", "modulepreload"];

/// Returns the URLs of a page's objects in their order, each once. They have the page's scheme if they are on its
/// server; others than http are left out.
pub(super) fn objects(page: &Url, html: &str) -> Vec<Url> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some((_, after)) = rest.split_once('<') {
        if let Some(comment) = after.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let (tag, after) = tag(after);
        rest = after;
        let name =
            tag.split(|letter: char| letter.is_whitespace() || letter == '/').next().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        let Some((_, attribute)) = ATTRIBUTES.iter().find(|(element, _)| *element == name) else { continue };
        let attributes = attributes(tag.get(name.len()..).unwrap_or_default());
        let value = |wanted: &str| attributes.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
        let is_loaded = name != "link"
            || value("rel").is_some_and(|rel| {
                rel.split_whitespace().any(|rel| LOADED.iter().any(|loaded| rel.eq_ignore_ascii_case(loaded)))
            });
        if is_loaded
            && let Some(value) = value(attribute)
            && let Ok(mut url) = page.join(value.trim())
            && matches!(url.scheme(), "http" | "https" | "http+sctp")
        {
            url.set_fragment(None);
            if !found.contains(&url) {
                found.push(url);
            }
        }
    }
    found
}

/// Splits a tag from what follows it. A `>` within quotes doesn't end it.
fn tag(text: &str) -> (&str, &str) {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (letter, quote) {
            ('>', None) => {
                return (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default());
            }
            ('"' | '\'', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            _ => {}
        }
    }
    (text, "")
}

/// Returns a tag's attributes, with names in lower case.
fn attributes(mut text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    loop {
        text = text.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '/');
        let end = text.find(|letter: char| letter.is_whitespace() || letter == '=').unwrap_or(text.len());
        let (name, after) = text.split_at(end);
        let Some(value) = after.trim_start().strip_prefix('=') else {
            if name.is_empty() {
                return found;
            }
            text = after;
            continue;
        };
        let value = value.trim_start();
        let (value, after) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let inner = value.get(1..).unwrap_or_default();
                inner.split_once(quote).unwrap_or((inner, ""))
            }
            _ => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
        };
        found.push((name.to_ascii_lowercase(), value.replace("&amp;", "&")));
        text = after;
    }
}

#[cfg(test)]
mod tests;
