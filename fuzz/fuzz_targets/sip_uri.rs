//! Any bytes as a URI, a host, an address and a Via: no panic, a URI means the same as itself, and all that
//! was found lies within the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strandline_sip::codec::{Address, Auth, Element, Host, Uri, Via, unescape, unquote};

fuzz_target!(|input: (&[u8], &[u8])| {
    let (bytes, other) = input;
    if let Ok(uri) = Uri::parse(bytes) {
        assert!(uri.matches(&uri));
        if let Ok(other) = Uri::parse(other) {
            assert_eq!(uri.matches(&other), other.matches(&uri));
        }
        if let Uri::Sip(uri) = uri {
            let _ = (uri.is_loose_router(), uri.gruu(), uri.transport(), uri.port_or_default());
            assert!(uri.user.is_none_or(|user| unescape(user).count() <= user.len()));
            assert!(uri.params.iter().count() + uri.headers.iter().count() <= bytes.len());
            let text = uri.host.to_string();
            assert_eq!(Host::parse(text.as_bytes()).expect("a host"), uri.host);
        }
    }
    if let Ok(address) = Address::parse(bytes) {
        let _ = (address.uri(), address.q(), address.expires(), address.instance());
        assert!(unquote(address.display.unwrap_or(&[])).count() <= bytes.len());
        assert!(address.params.iter().count() <= bytes.len());
    }
    if let Ok(via) = Via::parse(bytes) {
        assert!(via.branch.is_none() || via.params.has(b"branch"));
        assert_eq!(via.received.is_some(), via.params.has(b"received"));
    }
    if let Ok(auth) = Auth::parse(bytes) {
        let _ = auth.digest();
        assert!(auth.params.iter().count() >= 1);
    }
});
