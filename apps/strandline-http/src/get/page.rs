//! What HTML pages and style sheets load.

mod css;
mod srcset;

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;

use html5gum::{DefaultEmitter, HtmlString, Spanned, StartTag, Token, Tokenizer};
use url::Url;

/// Elements and the attributes that name what they load.
const ATTRIBUTES: [(&[u8], &[u8]); 20] = [
    (b"img", b"src"),
    (b"script", b"src"),
    (b"link", b"href"),
    (b"source", b"src"),
    (b"video", b"src"),
    (b"video", b"poster"),
    (b"audio", b"src"),
    (b"track", b"src"),
    (b"embed", b"src"),
    (b"object", b"data"),
    (b"input", b"src"),
    (b"iframe", b"src"),
    (b"frame", b"src"),
    (b"body", b"background"),
    // Of SVG within HTML.
    (b"image", b"href"),
    (b"image", b"xlink:href"),
    (b"feimage", b"href"),
    (b"feimage", b"xlink:href"),
    (b"use", b"href"),
    (b"use", b"xlink:href"),
];
/// Elements and the attributes that name several candidates.
const SETS: [(&[u8], &[u8]); 3] = [(b"img", b"srcset"), (b"source", b"srcset"), (b"link", b"imagesrcset")];
/// Values of `rel` of links that a browser loads to show the page.
const LOADED: [&str; 4] = ["stylesheet", "icon", "preload", "modulepreload"];

type Attributes = BTreeMap<HtmlString, Spanned<HtmlString, ()>>;

/// The kind of a text that names what it loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An HTML page.
    Page,
    /// A style sheet.
    Style,
}

impl Kind {
    /// Returns the kind that a media type says; `None` if nothing is searched for in such files.
    pub(super) fn of_media_type(value: &str) -> Option<Self> {
        let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            "text/html" | "application/xhtml+xml" => Some(Self::Page),
            "text/css" => Some(Self::Style),
            _ => None,
        }
    }
}

/// What pages load, in the order in which it was found, each URL once.
#[derive(Debug)]
pub(super) struct Objects {
    known: HashSet<Url>,
    found: Vec<Object>,
    left: usize,
    was_full: bool,
}

/// Something that a page loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) url: Url,
    /// Whether it is a style sheet, as far as the page says.
    pub(super) is_style: bool,
}

impl Objects {
    /// Makes an empty list for at most so many objects.
    pub(super) fn new(objects_max: usize) -> Self {
        Self { known: HashSet::new(), found: Vec::new(), left: objects_max, was_full: false }
    }

    /// Takes a URL for known, so that it isn't found.
    pub(super) fn exclude(&mut self, url: &Url) {
        self.known.insert(without_fragment(url.clone()));
    }

    /// Adds what a text loads, which was fetched from this URL.
    pub(super) fn search(&mut self, base: &Url, text: &str, kind: Kind) {
        match kind {
            Kind::Page => self.search_page(base.clone(), text),
            Kind::Style => self.search_style(base, text),
        }
    }

    /// Returns what was found since the last call.
    pub(super) fn take(&mut self) -> Vec<Object> {
        std::mem::take(&mut self.found)
    }

    /// Returns whether there was more than the limit.
    pub(super) const fn was_full(&self) -> bool {
        self.was_full
    }

    fn search_page(&mut self, mut base: Url, html: &str) {
        let mut has_base = false;
        // The element whose text is searched: `style` or `noscript`.
        let mut within: Option<Within> = None;
        for Ok(token) in tokens(html) {
            match token {
                Token::StartTag(tag) => {
                    within = Within::of(&tag.name);
                    if !has_base && let Some(found) = base_of(&base, &tag) {
                        (base, has_base) = (found, true);
                    }
                    self.search_tag(&base, &tag);
                }
                Token::String(text) => {
                    let text = String::from_utf8_lossy(&text);
                    match within.take() {
                        Some(Within::Style) => self.search_style(&base, &text),
                        // This program runs no scripts.
                        Some(Within::NoScript) => self.search_tags(&base, &text),
                        None => {}
                    }
                }
                Token::EndTag(_) => within = None,
                _ => {}
            }
        }
    }

    /// Adds what the tags of a part of a page load.
    fn search_tags(&mut self, base: &Url, html: &str) {
        for Ok(token) in tokens(html) {
            if let Token::StartTag(tag) = token {
                self.search_tag(base, &tag);
            }
        }
    }

    fn search_tag(&mut self, base: &Url, tag: &StartTag<()>) {
        if let Some(style) = text_of(&tag.attributes, b"style") {
            self.search_style(base, &style);
        }
        let name: &[u8] = &tag.name;
        let rel = text_of(&tag.attributes, b"rel").unwrap_or_default();
        let is = |value: &str| rel.split_ascii_whitespace().any(|rel| rel.eq_ignore_ascii_case(value));
        if name == b"link" && !LOADED.iter().any(|loaded| is(loaded)) {
            return;
        }
        let is_style = name == b"link" && is("stylesheet");
        for (_, attribute) in ATTRIBUTES.iter().filter(|(element, _)| *element == name) {
            if let Some(value) = text_of(&tag.attributes, attribute) {
                self.add(base, &value, is_style);
            }
        }
        for (_, attribute) in SETS.iter().filter(|(element, _)| *element == name) {
            if let Some(value) = text_of(&tag.attributes, attribute) {
                srcset::urls(&value).for_each(|url| self.add(base, url, false));
            }
        }
    }

    fn search_style(&mut self, base: &Url, style: &str) {
        css::urls(style, &mut |url, is_import| self.add(base, url, is_import));
    }

    /// Adds a URL, unless it is known or isn't HTTP. It has the base's scheme if it is on its server.
    fn add(&mut self, base: &Url, text: &str, is_style: bool) {
        let text = text.trim();
        // An empty one, or one of a fragment alone, is the page itself.
        if text.is_empty() || text.starts_with('#') || text.len() > URL_MAX || self.was_full {
            return;
        }
        let Ok(url) = base.join(text).map(without_fragment) else { return };
        if !is_http(&url) || self.known.contains(&url) {
            return;
        }
        let Some(left) = self.left.checked_sub(1) else {
            self.was_full = true;
            return;
        };
        self.left = left;
        self.known.insert(url.clone());
        self.found.push(Object { url, is_style });
    }
}

/// An element whose text is searched.
enum Within {
    Style,
    NoScript,
}

impl Within {
    fn of(element: &[u8]) -> Option<Self> {
        match element {
            b"style" => Some(Self::Style),
            b"noscript" => Some(Self::NoScript),
            _ => None,
        }
    }
}

/// Maximum length of a URL in bytes, relative or as a base: each link is joined with the base.
const URL_MAX: usize = 8192;

/// Splits HTML into tags and texts. What scripts, styles and titles contain is text.
fn tokens(html: &str) -> impl Iterator<Item = Result<Token, Infallible>> {
    let mut emitter = DefaultEmitter::<()>::default();
    emitter.naively_switch_states(true);
    Tokenizer::new_with_emitter(html, emitter)
}

fn is_http(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https" | "http+sctp")
}

fn without_fragment(mut url: Url) -> Url {
    url.set_fragment(None);
    url
}

/// Returns the base that `<base href>` sets for the page.
fn base_of(page: &Url, tag: &StartTag<()>) -> Option<Url> {
    let href = (&*tag.name == b"base").then(|| text_of(&tag.attributes, b"href"))??;
    page.join(href.trim()).ok().filter(|url| is_http(url) && url.as_str().len() <= URL_MAX)
}

fn text_of(attributes: &Attributes, name: &[u8]) -> Option<String> {
    attributes.get(name).map(|value| String::from_utf8_lossy(value).into_owned())
}

/// Searches any text, the first byte of which is its kind. What is found can be fetched, each URL once.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(bytes: &[u8]) {
    const OBJECTS_MAX: usize = 50;
    let (Some((kind, text)), Ok(base)) = (bytes.split_first(), Url::parse("http+sctp://a:81/b/c?d")) else {
        return;
    };
    let kind = if kind % 2 == 0 { Kind::Page } else { Kind::Style };
    let text = String::from_utf8_lossy(text);
    let mut objects = Objects::new(OBJECTS_MAX);
    objects.exclude(&base);
    objects.search(&base, &text, kind);
    let found = objects.take();
    let urls: HashSet<&Url> = found.iter().map(|object| &object.url).collect();
    assert_eq!(urls.len(), found.len(), "each URL once");
    assert!(found.len() == OBJECTS_MAX || (found.len() < OBJECTS_MAX && !objects.was_full()), "the limit");
    for url in urls {
        assert!(is_http(url) && url.fragment().is_none() && *url != base, "{url}");
    }
    objects.search(&base, &text, kind);
    assert!(objects.take().is_empty(), "nothing new in the same text");
}

#[cfg(test)]
mod tests;
