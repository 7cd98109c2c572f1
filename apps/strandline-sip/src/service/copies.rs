//! What copies of a request are made of.

use std::borrow::Cow;

use crate::codec::{Uri, unescape};
use crate::transaction::Flow;

use super::incoming::Incoming;
use super::route::Way;

/// The most copies of a request that may be on their way at once (RFC 5393 section 5.3.3).
pub(super) const BREADTH: u32 = 60;

/// What a copy of a request differs in from others.
pub(super) struct Copy<'a> {
    pub(super) uri: Option<&'a [u8]>,
    pub(super) path: &'a [u8],
    pub(super) flow: Flow,
    pub(super) via_branch: &'a [u8],
    pub(super) breadth: u32,
    /// The mark of the name that led there; 0 without.
    pub(super) host: u32,
    /// It goes to a proxy, which is asked how much it can take.
    pub(super) neighbour: bool,
    /// A URI names the place: who listens there over UDP may do so over TCP too.
    pub(super) by_uri: bool,
}

/// What is copied.
pub(super) struct Copied<'a> {
    pub(super) incoming: &'a Incoming<'a>,
    pub(super) way: &'a Way<'a>,
    pub(super) mark: u64,
}

/// A target's URI as a request URI: without headers and `method`, which may not stand there (RFC 3261 section 16.6, step 2, and table 1).
pub(super) fn request_uri(uri: &[u8]) -> Cow<'_, [u8]> {
    // Few have any. To see that takes less time than to take them apart.
    let has = |byte: u8| uri.iter().fold(false, |found, other| found | (*other == byte));
    let may_be_method = |two: &[u8]| matches!(two, [b';', b'm' | b'M' | b'%']);
    if !(has(b'?') || has(b';') && uri.windows(2).any(may_be_method)) {
        return uri.into();
    }
    let Ok(Uri::Sip(parsed)) = Uri::parse(uri) else { return uri.into() };
    let (params, headers) = (parsed.params.as_bytes().len(), parsed.headers.as_bytes().len());
    let (bare, rest) = uri.split_at(uri.len().saturating_sub(params + headers));
    let (params, _) = rest.split_at(params.min(rest.len()));
    if !parsed.params.has(b"method") {
        return uri.get(..uri.len() - headers).unwrap_or(uri).into();
    }
    let is_method = |param: &[u8]| {
        let name = param.split(|byte| *byte == b'=').next().unwrap_or(&[]);
        unescape(name).map(|byte| byte.to_ascii_lowercase()).eq(*b"method")
    };
    let mut out = bare.to_vec();
    for param in params.split(|byte| *byte == b';').skip(1).filter(|param| !is_method(param)) {
        out.push(b';');
        out.extend_from_slice(param);
    }
    out.into()
}
