//! FORWARD TSN beside resets of streams (RFC 6525).

use strandline_wire::chunk::ReConfig;
use strandline_wire::number::RequestNumber;
use strandline_wire::parameter::re_config::{NextTsns, ReConfigParameter, Response, ResultCode, SsnTsnReset};
use strandline_wire::{TlvWriter, print};

use super::*;
use crate::endpoint::Reconfigure;
use crate::reliability::Reliability;

/// Forward-TSN-Supported, and Supported Extensions with RE-CONFIG and FORWARD TSN.
const BOTH: [u8; 12] = [0xc0, 0, 0, 4, 0x80, 8, 0, 6, 130, 192, 0, 0];

fn open_both() -> Raw {
    let pair = Pair::configured(|config| {
        config.heartbeat_interval = None;
        config.extensions.peer_requests = crate::reconfiguration::PeerRequests::ALL;
    });
    Raw::open(pair, Init { parameters: Parameters::new(&BOTH), ..init(Tsn(1000)) })
}

fn re_config(raw: &mut Raw, parameter: ReConfigParameter<'_>) -> Vec<Sent> {
    let mut buffer = [0; 100];
    let mut writer = TlvWriter::new(&mut buffer);
    assert!(writer.push(&parameter));
    let bytes = writer.finish().to_vec();
    raw.say(|packet| assert!(packet.push(&ReConfig { parameters: Parameters::new(&bytes) })))
}

/// Returns whether a line of the packets contains `text`.
fn says(packets: &[Sent], text: &str) -> bool {
    packets.iter().any(|sent| print::line(&sent.bytes).to_string().contains(text))
}

/// Asks for a reset of all numbers.
fn ask(raw: &mut Raw) {
    let (now, id) = (raw.pair.now, raw.server);
    Reconfigure::ResetAssociation.ask(&mut raw.pair.hosts[SERVER].endpoint, now, id).unwrap();
}

/// The peer performs the reset, and its next TSN is `sender`.
fn performed(raw: &mut Raw, sender: Tsn) {
    let number = RequestNumber(raw.server_tsn.0);
    let next_tsns = Some(NextTsns { sender, receiver: Tsn(7) });
    let response = Response { next_tsns, ..Response::new(number, ResultCode::PERFORMED) };
    re_config(raw, ReConfigParameter::Response(response));
}

fn on_stream(tsn: Tsn, stream: u16, ssn: u16, payload: &[u8]) -> Data<'_> {
    Data::whole(tsn, StreamId(stream), Ssn(ssn), payload)
}

/// A FORWARD TSN from after a reset of all numbers overtakes the response: the SSNs that it skips are those of the new
/// numbering, and stay skipped.
#[test]
fn forward_tsn_overtakes_the_response_to_a_renumbering() {
    for sender in [1, 1 << 16] {
        let mut raw = open_both();
        let tsn = raw.tsn;
        raw.say_data(&on_stream(tsn, 1, 0, b"old"));
        ask(&mut raw);
        assert!(says(&raw.heard(), "SSN/TSN Reset Request"));
        // From after the reset: two messages on a stream that was not used, and one on a stream that was.
        let next = tsn + sender;
        raw.forward(next + 1, &[(5, 1)]);
        performed(&mut raw, next);
        raw.say_data(&on_stream(next + 2, 5, 2, b"third"));
        raw.say_data(&on_stream(next + 3, 1, 0, b"first"));
        assert_eq!(raw.texts(), ["old", "third", "first"], "next TSN {sender} further");
        assert_eq!(raw.buffered(), 0);
    }
}

/// A FORWARD TSN from before the reset completes what the peer waits for. Its SSNs do not count after the reset.
#[test]
fn forward_tsn_precedes_a_renumbering() {
    let mut raw = open_both();
    let tsn = raw.tsn;
    raw.say_data(&on_stream(tsn, 1, 0, b"old"));
    ask(&mut raw);
    raw.heard();
    let sent = raw.forward(tsn + 3, &[(1, 1), (5, 1)]);
    assert_eq!(raw.acknowledged(&sent).0, tsn + 3);
    performed(&mut raw, tsn + 4);
    raw.say_data(&on_stream(tsn + 4, 5, 0, b"five"));
    raw.say_data(&on_stream(tsn + 5, 1, 0, b"one"));
    assert_eq!(raw.texts(), ["old", "five", "one"]);
}

/// A FORWARD TSN whose SSNs are past by the old numbering may follow the reset. The response decides.
#[test]
fn ambiguous_forward_tsn_counts_after_the_reset() {
    let mut raw = open_both();
    let tsn = raw.tsn;
    for ssn in 0..3 {
        raw.say_data(&on_stream(tsn + u32::from(ssn), 1, ssn, b"old"));
    }
    ask(&mut raw);
    raw.heard();
    let sent = raw.forward(tsn + 3, &[(1, 0)]);
    assert_eq!(raw.acknowledged(&sent).0, tsn + 3);
    performed(&mut raw, tsn + 3);
    raw.say_data(&on_stream(tsn + 4, 1, 1, b"new"));
    assert_eq!(raw.texts(), ["old", "old", "old", "new"]);
}

/// The peer abandons two messages before the reset. The second was delivered, and the SACK was lost: its SSN
/// is past. The peer answers once the chunk is acknowledged.
#[test]
fn delivered_message_is_abandoned_before_the_reset() {
    let mut raw = open_both();
    let tsn = raw.tsn;
    raw.say_data(&on_stream(tsn, 1, 0, b"old"));
    ask(&mut raw);
    raw.heard();
    raw.say_data(&on_stream(tsn + 1, 1, 1, b"old"));
    raw.say_data(&on_stream(tsn + 3, 2, 0, b"never"));
    let sent = raw.forward(tsn + 3, &[(1, 1), (2, 0)]);
    assert_eq!(raw.acknowledged(&sent).0, tsn + 3);
    performed(&mut raw, tsn + 4);
    raw.say_data(&on_stream(tsn + 4, 1, 0, b"new"));
    raw.say_data(&on_stream(tsn + 5, 2, 0, b"new"));
    assert_eq!(raw.texts(), ["old", "old", "new", "new"]);
}

/// Sends a message that is lost and abandoned. Returns once a FORWARD TSN was sent.
fn abandon(raw: &mut Raw) {
    let info = SendInfo::on(StreamId(3)).reliability(Reliability::retransmissions(0));
    let now = raw.pair.now;
    raw.pair.hosts[SERVER].endpoint.send_slice(now, raw.server, info, b"lost").unwrap();
    raw.heard();
    assert!(says(&raw.wait(Duration::from_millis(1500)), "FORWARD TSN"));
}

/// RFC 6525 section 5.1.4: all TSNs are acknowledged before the request is sent, those that are abandoned included.
#[test]
fn own_renumbering_waits_for_skipped_data() {
    let mut raw = open_both();
    abandon(&mut raw);
    ask(&mut raw);
    assert!(!says(&raw.heard(), "RE-CONFIG"));
    let sent = raw.say_sack(1, 65_536, &[]);
    assert!(says(&sent, "SSN/TSN Reset Request"));
}

/// RFC 6525 section 5.2.4: the peer's request is performed once the peer has skipped what was abandoned.
#[test]
fn peers_renumbering_waits_for_skipped_data() {
    let mut raw = open_both();
    abandon(&mut raw);
    let asks = ReConfigParameter::SsnTsnReset(SsnTsnReset { request: RequestNumber(1000) });
    let sent = re_config(&mut raw, asks);
    assert!(!says(&sent, "RE-CONFIG"));
    let sent = raw.say_sack(1, 65_536, &[]);
    assert!(says(&sent, "1000 performed"));
}
