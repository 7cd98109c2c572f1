//! Precompressed files, and what a client accepts of them (RFC 9110 section 12.5.3).

use hyper::header::{ACCEPT_ENCODING, HeaderMap};

/// A content coding with a file of its own beside the plain one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Encoding {
    /// Its name in Content-Encoding.
    pub(super) name: &'static str,
    /// What its file's name ends with.
    pub(super) suffix: &'static str,
}

/// All codings, the smallest files first.
const ENCODINGS: [Encoding; 3] = [
    Encoding { name: "br", suffix: ".br" },
    Encoding { name: "zstd", suffix: ".zst" },
    Encoding { name: "gzip", suffix: ".gz" },
];

/// Returns the codings that a client accepts, the preferred one first.
pub(super) fn accepted(headers: &HeaderMap) -> Vec<Encoding> {
    let values = headers.get_all(ACCEPT_ENCODING);
    let list: Vec<&str> =
        values.iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(',')).collect();
    let weight_of = |wanted: &str| {
        list.iter().find_map(|item| {
            let mut parts = item.split(';').map(str::trim);
            let name = parts.next()?;
            let is_named = name.eq_ignore_ascii_case(wanted)
                || (wanted == "gzip" && name.eq_ignore_ascii_case("x-gzip"));
            is_named.then(|| {
                parts.find_map(|part| part.strip_prefix("q=")).map_or(1.0, |q| q.parse().unwrap_or(0.0))
            })
        })
    };
    let any: f32 = weight_of("*").unwrap_or(0.0);
    let weigh = |encoding: Encoding| (encoding, weight_of(encoding.name).unwrap_or(any));
    let mut found: Vec<(Encoding, f32)> =
        ENCODINGS.into_iter().map(weigh).filter(|(_, weight)| *weight > 0.0).collect();
    found.sort_by(|(_, left), (_, right)| right.total_cmp(left));
    found.into_iter().map(|(encoding, _)| encoding).collect()
}

#[cfg(test)]
mod tests;
