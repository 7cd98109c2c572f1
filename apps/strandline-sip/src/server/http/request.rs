//! What somebody asks for.

use std::borrow::Cow;

const HEADERS: usize = 32;

/// A request without a body: what it asks for stands in its first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) struct Request {
    pub(in crate::server) method: String,
    /// The parts of the path between its slashes, without escapes; none of `/`.
    pub(in crate::server) path: Vec<String>,
    query: Vec<(String, String)>,
    /// Of `Authorization: Bearer`.
    pub(in crate::server) token: Option<String>,
}

impl Request {
    /// Reads one, of which HEAD becomes GET, and tells whether it was one. `None` if it isn't whole yet.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(in crate::server) fn read(bytes: &[u8]) -> Result<Option<(Self, bool)>, &'static str> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err("this is no request of HTTP"),
        }
        let (Some(method), Some(target)) = (parsed.method, parsed.path) else { return Ok(None) };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let Some(path) = path.strip_prefix('/') else { return Err("the path must begin with /") };
        let unescaped = |text: &str| unescape(text).ok_or("an escape such as %zz in the path or the query");
        let path =
            path.split('/').filter(|part| !part.is_empty()).map(unescaped).collect::<Result<_, _>>()?;
        let query = query.split('&').filter(|part| !part.is_empty()).map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Ok((unescaped(name)?, unescaped(value)?))
        });
        let token = parsed.headers.iter().find(|header| header.name.eq_ignore_ascii_case("Authorization"));
        let token = token.and_then(|header| header.value.strip_prefix(b"Bearer "));
        let request = Self {
            method: if method == "HEAD" { "GET".to_owned() } else { method.to_owned() },
            path,
            query: query.collect::<Result<_, &str>>()?,
            token: token.and_then(|token| Some(core::str::from_utf8(token).ok()?.trim().to_owned())),
        };
        Ok(Some((request, method == "HEAD")))
    }

    /// A value of the query.
    pub(in crate::server) fn value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// All values of the query, with their names.
    pub(in crate::server) fn query(&self) -> &[(String, String)] {
        &self.query
    }

    /// Its path as patterns are made of.
    pub(in crate::server) fn parts(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }
}

/// `%40` becomes `@`; `None` if that isn't possible.
fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        out.push(u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(out).ok()
}

/// A text as it may stand in a path or a query.
pub(in crate::server) fn escape(text: &str) -> Cow<'_, str> {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'@' | b':');
    if text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    let one = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    Cow::Owned(text.bytes().map(one).collect())
}

#[cfg(test)]
mod tests;
