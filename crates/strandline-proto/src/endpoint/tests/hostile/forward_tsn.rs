//! FORWARD TSN chunks of a peer that means harm (RFC 3758).

use strandline_wire::Data;

use super::super::conformance_rfc3758::{open, open_as};
use super::super::raw::*;
use super::super::*;

/// A jump takes no time for each TSN, and goes no farther than data that a peer may have in flight. One that
/// seems to is from before a reset of all numbers, which moves them by half of the number space (RFC 6525
/// section 5.2.4).
#[test]
fn jumps_of_any_length() {
    let farthest = 1 << 26;
    let too_far = [farthest + 1, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, u32::MAX];
    for distance in [1, 300, 65_535, 65_536, 1 << 20, farthest].into_iter().chain(too_far) {
        let mut raw = open();
        let first = raw.tsn;
        raw.say_data(&whole(first + 200, 7, b"beyond a gap"));
        let before = first.previous();
        let sent = raw.forward(before + distance, &[(0, 6), (0, u16::MAX)]);
        let (cumulative, gaps) = raw.acknowledged(&sent);
        if distance <= farthest {
            assert_eq!(cumulative, before + distance, "{distance}");
            assert_eq!(gaps.is_empty(), distance > 200, "{distance}");
        } else {
            assert_eq!(cumulative, before, "{distance}");
        }
        assert_eq!(raw.state(), "ESTABLISHED");
    }
}

/// Streams that do not exist corrupted memory elsewhere (CVE-2009-0065). They are ignored, thousands of them too.
#[test]
fn lists_with_bad_streams() {
    let mut raw = open();
    let first = raw.tsn;
    let mut chunk = vec![192, 0, 0xff, 0xe0];
    chunk.extend((first + 40_000).0.to_be_bytes());
    for number in 0..16_374_u32 {
        let (stream, ssn) = (100 + (number % 3) * 21_800, number as u16);
        chunk.extend([(stream as u16).to_be_bytes(), ssn.to_be_bytes()].concat());
    }
    let memory = raw.server().memory(raw.server).unwrap().total();
    raw.say_bytes(&chunk);
    assert!(raw.server().memory(raw.server).unwrap().total() < memory + 1000);
    raw.say_data(&whole(first + 40_001, 0, b"goes on"));
    assert_eq!((raw.read(), raw.state()), (vec![b"goes on".to_vec()], "ESTABLISHED"));
}

/// A stream that is listed again and again moves as far as the highest SSN that can have been abandoned.
#[test]
fn repeated_and_impossible_numbers() {
    let mut raw = open();
    let first = raw.tsn;
    raw.say_data(&whole(first + 4, 4, b"waits"));
    // Three TSNs are no more than three messages.
    let sent = raw.forward(first + 2, &[(0, 3), (0, 40_000), (0, 1), (0, 1), (0, 0), (0, 2), (0, 65_535)]);
    assert_eq!(raw.acknowledged(&sent).0, first + 2);
    assert_eq!(raw.read(), Vec::<Vec<u8>>::new());
    raw.say_data(&whole(first + 3, 3, b"next"));
    assert_eq!(raw.read(), [b"next".to_vec(), b"waits".to_vec()]);
}

/// A packet full of FORWARD TSN chunks costs no more than two of them.
#[test]
fn many_in_one_packet() {
    let mut raw = open();
    let first = raw.tsn;
    let chunks: Vec<u8> = (0..100)
        .flat_map(|number| [&[192, 0, 0, 8][..], &(first + number).0.to_be_bytes()].concat())
        .collect();
    let sent = raw.say_bytes(&chunks);
    assert_eq!(raw.acknowledged(&sent).0, first + 1);
}

#[test]
fn wrong_lengths_end_the_association() {
    for value in [&[0, 0, 4][..], &[0, 0, 4, 0, 1], &[0, 0, 4, 0, 0, 1, 0]] {
        let mut raw = open();
        let sent = raw.say_all(&[&AnyChunk { kind: kind::FORWARD_TSN, flags: 0, value }]);
        assert!(sent.iter().any(has(kind::ABORT)), "{value:?}");
    }
}

/// What is cut off again and again stays within the receive buffer, and so do its reports.
#[test]
fn messages_that_are_cut_again_and_again() {
    let mut raw = open_as(|config| {
        config.receive_buffer = Some(20_000);
        config.partial_delivery_point = 100;
    });
    let mut tsn = raw.tsn;
    for ssn in 0..2000_u16 {
        raw.say_data(&Data { ending: false, ..whole(tsn, ssn, &[7; 1000]) });
        raw.forward(tsn + 1, &[(0, ssn)]);
        tsn += 2;
    }
    let status = raw.server().status(raw.server).unwrap();
    assert!(status.receive_buffered <= 40_000, "{}", status.receive_buffered);
    let aborted = |event: &Event| matches!(event, Event::PartialDeliveryAborted { .. });
    let aborted = raw.pair.hosts[SERVER].events.iter().filter(|(_, event)| aborted(event)).count();
    assert_eq!(aborted, raw.read().len());
    assert_eq!(raw.state(), "ESTABLISHED");
}
