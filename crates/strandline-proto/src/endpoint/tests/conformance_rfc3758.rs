//! RFC 3758: partial reliability.

mod negotiation;
mod receiver;
mod reconfiguration;
mod restart;
mod sender;

use strandline_wire::chunk::forward_tsn;
use strandline_wire::number::{Ssn, Tsn};
use strandline_wire::parameter::Parameters;
use strandline_wire::{Data, Init};

use super::raw::*;
use super::*;

/// Forward-TSN-Supported.
const SUPPORTED: [u8; 4] = [0xc0, 0, 0, 4];

/// A peer that supports the extension.
pub(super) fn open() -> Raw {
    open_as(|_| {})
}

pub(super) fn open_as(change: impl Fn(&mut AssociationConfig)) -> Raw {
    let pair = Pair::configured(|config| {
        config.heartbeat_interval = None;
        change(config);
    });
    Raw::open(pair, Init { parameters: Parameters::new(&SUPPORTED), ..init(Tsn(1000)) })
}

/// Returns a fragment of a message on stream 0.
fn part(tsn: Tsn, ssn: u16, beginning: bool, ending: bool, payload: &[u8]) -> Data<'_> {
    Data { beginning, ending, ..whole(tsn, ssn, payload) }
}

impl Raw {
    /// Sends a FORWARD TSN to the server. Returns what the server sends.
    pub(super) fn forward(&mut self, last: Tsn, skipped: &[(u16, u16)]) -> Vec<Sent> {
        let skipped = skipped.iter().map(|&(stream, ssn)| (StreamId(stream), Ssn(ssn)));
        self.say(|packet| assert!(forward_tsn::write(packet, last, skipped)))
    }

    /// Returns the texts of all messages that can be read.
    fn texts(&mut self) -> Vec<String> {
        self.read().into_iter().map(|bytes| String::from_utf8(bytes).unwrap()).collect()
    }

    /// Returns the cumulative TSN and gap blocks of a SACK that the server sends now or after its delay.
    pub(super) fn acknowledged(&mut self, sent: &[Sent]) -> (Tsn, Vec<(u16, u16)>) {
        let told = sacks(sent).pop().or_else(|| sacks(&self.wait(Duration::from_millis(250))).pop());
        let told = told.expect("a SACK");
        (told.cumulative, told.gaps)
    }

    fn buffered(&self) -> u32 {
        self.server().status(self.server).unwrap().receive_buffered
    }
}
