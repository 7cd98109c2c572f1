//! Fuzz targets of parsers.

pub use crate::config::fuzzing::run as gateway_config;
use crate::protocol::{Destination, Opening, Reply, Report};
use crate::rules::Rule;
use crate::{connect_request, preload_request, socks};

/// What a peer or a client sends first. The first byte is the kind.
pub fn gateway(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 7 {
        0 => opening(bytes),
        1 => reply(bytes),
        2 => socks_client(bytes),
        3 => {
            let text = String::from_utf8_lossy(bytes);
            let _ = text.parse::<Rule>();
            if let Ok(destination) = text.parse::<Destination>() {
                assert_eq!(
                    destination.to_string().parse(),
                    Ok(destination),
                    "a destination survives its text"
                );
            }
        }
        4 => {
            if let connect_request::Parsed::Whole(to, len) = connect_request::parse(bytes) {
                assert!(len <= bytes.len() && to.port != 0, "a head within the bytes");
            }
        }
        5 => preload(bytes),
        _ => report(bytes),
    }
}

fn opening(bytes: &[u8]) {
    let Ok((opening, len)) = Opening::decode(bytes) else { return };
    assert!(len <= bytes.len(), "a header within the message");
    let data = bytes.get(len..).unwrap_or_default();
    let encoded = opening.encode(data);
    let again = Opening::decode(&encoded);
    let again = again.map(|(again, len)| (again, encoded.get(len..).unwrap_or_default()));
    assert_eq!(again, Ok((opening, data)), "an opening survives encoding");
}

fn reply(bytes: &[u8]) {
    let Ok((reply, len)) = Reply::decode(bytes) else { return };
    assert!(len <= bytes.len(), "a header within the message");
    let again = Reply::decode(&reply.encode()).map(|(again, _)| again);
    match (&reply, &again) {
        // Text that isn't UTF-8 is longer once it is, and may be cut.
        (Reply::Failed { reason, .. }, Ok(Reply::Failed { reason: other, .. })) => assert_eq!(reason, other),
        _ => assert_eq!(again, Ok(reply), "a reply survives encoding"),
    }
}

/// What a later version adds behind a report changes nothing.
fn report(bytes: &[u8]) {
    let Some(report) = Report::decode(bytes) else {
        assert!(bytes.len() < Report::LEN, "any bytes of its length are a report");
        return;
    };
    assert!(report.lost_per_million.is_none_or(|lost| lost <= 1_000_000), "a share");
    assert_eq!(Report::decode(&report.encode()), Some(report), "a report survives encoding");
    assert_eq!(bytes.get(..Report::LEN).and_then(Report::decode), Some(report), "the rest is skipped");
}

fn preload(bytes: &[u8]) {
    let Some(bytes) = bytes.first_chunk() else { return };
    if let Some(preload_request::Request::Connect { to, padding, .. }) = preload_request::parse(bytes) {
        assert!(to.port() != 0 && to.ip() == to.ip().to_canonical(), "a destination");
        assert!(padding <= 1 << 20, "padding has a limit");
    }
}

fn socks_client(bytes: &[u8]) {
    let parsed = socks::greeting(bytes);
    if let socks::Parsed::Whole(_, len) = parsed {
        assert!(len <= bytes.len(), "a greeting within the bytes");
    }
    match socks::request(bytes) {
        socks::Parsed::Whole(to, len) => {
            assert!(len <= bytes.len() && to.port != 0, "a request within the bytes");
            let before = bytes.get(..len - 1).unwrap_or_default();
            assert_eq!(socks::request(before), socks::Parsed::Partial, "no byte too many");
        }
        socks::Parsed::Partial => assert!(bytes.len() < socks::MESSAGE_MAX, "a request has an end"),
        socks::Parsed::Wrong(code) => assert!((1..=8).contains(&code), "a code of RFC 1928"),
    }
}

#[cfg(test)]
mod tests;
