//! Any bytes as control messages.

use std::net::IpAddr;

use super::{Ancillary, CONTROL_BYTES, Control, Messages};

/// Reads control messages: their payloads never have more bytes than there are. What is written reads as it was.
pub fn run(bytes: &[u8]) {
    let payloads: usize = Messages { rest: bytes }.map(|(_, _, payload)| payload.len()).sum();
    assert!(payloads <= bytes.len());
    let found = Ancillary::read(Messages { rest: bytes });
    assert!(found.ecn.is_none_or(|ecn| ecn < 4));
    if let Some((octets, _)) = bytes.split_first_chunk::<16>() {
        let source = IpAddr::from(*octets).to_canonical();
        let mut control = Control::<CONTROL_BYTES>::EMPTY;
        let len = control.put_source(0, source);
        let len = control.put_ecn_capable(len, source);
        let all: Vec<_> = control.messages(len).map(|(level, kind, _)| (level, kind)).collect();
        assert_eq!(all.len(), 2);
        if source.is_ipv6() {
            let read = Ancillary::read(control.messages(len));
            assert_eq!((read.destination, read.ecn), (Some(source), Some(2)));
        }
    }
}
