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

/// Weight of the plain file for clients that don't name it: less than any that they can give.
const PLAIN_WEIGHT: u16 = 1;

/// Returns the codings that a client accepts, the preferred one first; `None` is the plain file.
pub(super) fn accepted(headers: &HeaderMap) -> Vec<Option<Encoding>> {
    let values = headers.get_all(ACCEPT_ENCODING);
    let list: Vec<&str> =
        values.iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(',')).collect();
    let weight_of = |wanted: &str| {
        list.iter().find_map(|item| {
            let mut parts = item.split(';').map(str::trim);
            let name = parts.next()?;
            let is_named = name.eq_ignore_ascii_case(wanted)
                || (wanted == "gzip" && name.eq_ignore_ascii_case("x-gzip"));
            is_named.then(|| parts.find_map(weight).unwrap_or(WEIGHT_MAX))
        })
    };
    let any = weight_of("*");
    let plain = weight_of("identity").or(any.filter(|weight| *weight == 0)).unwrap_or(PLAIN_WEIGHT);
    let of = |encoding: Encoding| (Some(encoding), weight_of(encoding.name).or(any).unwrap_or(0));
    let all = ENCODINGS.into_iter().map(of).chain([(None, plain)]);
    let mut found: Vec<(Option<Encoding>, u16)> = all.filter(|(_, weight)| *weight > 0).collect();
    found.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    found.into_iter().map(|(encoding, _)| encoding).collect()
}

/// The largest weight.
const WEIGHT_MAX: u16 = 10_000;

/// Returns the weight that a parameter gives (RFC 9110 section 12.4.2), in units of a ten-thousandth; 0 if it
/// is malformed, and `None` if it is another parameter.
fn weight(parameter: &str) -> Option<u16> {
    let (name, value) = parameter.split_once('=')?;
    if !name.eq_ignore_ascii_case("q") {
        return None;
    }
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let is_number = fraction.len() <= 3 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    Some(match whole {
        "0" if is_number => format!("{fraction:0<4}").parse().unwrap_or(0),
        "1" if is_number && fraction.bytes().all(|byte| byte == b'0') => WEIGHT_MAX,
        _ => 0,
    })
}

#[cfg(test)]
mod tests;
