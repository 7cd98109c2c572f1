//! The objects of a page: `src` of any element, `href` of links.

/// Returns the names that a page loads, each once, in their order.
pub(crate) fn objects(html: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for tag in html.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag) {
        let attribute = if tag.starts_with("link ") { " href=\"" } else { " src=\"" };
        let value = tag.split_once(attribute).and_then(|(_, rest)| rest.split_once('"'));
        if let Some((name, _)) = value
            && !found.contains(&name)
        {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests;
