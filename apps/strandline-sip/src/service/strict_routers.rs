//! Next hops that are strict routers (RFC 3261 section 16.6, step 6): their URI takes the place of the
//! request URI, which becomes the last Route.

use crate::codec::{Element, Route, Uri};

use super::route::RouteInfo;
use super::targets::first_of;

/// A strict router as next hop.
pub(super) struct Strict<'a> {
    pub(super) uri: &'a [u8],
    /// The rest of the Path if the router is the first entry of a Path; `None` if it is the first Route that
    /// isn't ours.
    pub(super) path: Option<&'a [u8]>,
}

/// The next hop, if it is a strict router.
pub(super) fn next<'a>(path: &'a [u8], route: &RouteInfo<'a>) -> Option<Strict<'a>> {
    let uri = first_uri(path, route);
    let is_strict = matches!(Uri::parse(uri), Ok(Uri::Sip(uri)) if !uri.is_loose_router());
    let rest = || path.get(first_of(path).len() + 1..).unwrap_or(&[]).trim_ascii();
    is_strict.then(|| Strict { uri, path: (!path.is_empty()).then(rest) })
}

/// The URI of the first Route that the next hop sees; empty if there is none.
pub(super) fn first_uri<'a>(path: &'a [u8], route: &RouteInfo<'a>) -> &'a [u8] {
    let first = match path.is_empty() {
        false => Route::parse(first_of(path)).ok(),
        true => route.next,
    };
    first.map_or(&[], |first| first.uri_bytes())
}

/// Whether this is a SIPS URI.
pub(super) fn is_sips(uri: &[u8]) -> bool {
    uri.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"sips:"))
}
