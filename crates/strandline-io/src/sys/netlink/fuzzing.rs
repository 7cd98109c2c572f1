//! Any bytes as an answer of the kernel's about routes and neighbours.

use super::{Attributes, neighbour_in, parse, route_in};

/// Reads an answer. Attributes never have more bytes than the message.
pub fn run(bytes: &[u8]) {
    let [kind, message @ ..] = bytes else { return };
    let kind = if kind & 1 == 0 { libc::RTM_NEWROUTE } else { libc::RTM_NEWNEIGH };
    let Some((body, attributes)) = parse(message, kind) else { return };
    assert!(body.len() + attributes.len() <= message.len());
    let mut len = 0;
    for (_, value) in Attributes(attributes) {
        len += 4 + value.len();
        assert!(len <= attributes.len());
    }
    let destination = [192, 0, 2, 1].into();
    for source in [None, Some([192, 0, 2, 9].into())] {
        if let Some(route) = route_in(body, attributes, destination, source) {
            assert!(route.interface != 0 && source.is_none_or(|source| route.source == Some(source)));
        }
    }
    let _ = neighbour_in(body, attributes);
}
