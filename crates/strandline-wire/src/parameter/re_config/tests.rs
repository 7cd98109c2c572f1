use super::super::raw::Parameters;
use super::*;
use crate::number::{StreamId, Tsn};
use crate::tlv::TlvWriter;

const ASK: RequestNumber = RequestNumber(0x0102_0304);

fn list(bytes: &[u8]) -> StreamList<'_> {
    StreamList::new(bytes)
}

fn encoded(parameters: &[ReConfigParameter<'_>]) -> Vec<u8> {
    let mut buffer = [0xff; 200];
    let mut writer = TlvWriter::new(&mut buffer);
    assert!(parameters.iter().all(|parameter| writer.push(parameter)));
    writer.finish().to_vec()
}

#[track_caller]
fn round_trip(parameter: ReConfigParameter<'_>, bytes: &[u8]) {
    assert_eq!(encoded(&[parameter]), bytes);
    let raw = Parameters::new(bytes).iter().next().unwrap().unwrap();
    assert_eq!(raw.parse_re_config(), Some(Ok(parameter)));
}

#[track_caller]
fn rejects(kind: u16, len: usize, error: ParameterError) {
    let mut bytes = [kind.to_be_bytes(), u16::try_from(4 + len).unwrap().to_be_bytes()].concat();
    bytes.resize(4 + len, 1);
    let raw = Parameters::new(&bytes).iter().next().unwrap().unwrap();
    assert_eq!(raw.parse_re_config(), Some(Err(error)));
}

/// One of each kind, outgoing, incoming, TSN, response, add outgoing, add incoming.
fn each() -> [ReConfigParameter<'static>; 6] {
    let (request, streams) = (ASK, StreamList::default());
    [
        ReConfigParameter::OutgoingSsnReset(OutgoingSsnReset {
            request,
            response: ASK,
            last_tsn: Tsn(9),
            streams,
        }),
        ReConfigParameter::IncomingSsnReset(IncomingSsnReset { request, streams }),
        ReConfigParameter::SsnTsnReset(SsnTsnReset { request }),
        ReConfigParameter::Response(Response::new(ASK, ResultCode::PERFORMED)),
        ReConfigParameter::AddOutgoingStreams(AddOutgoingStreams { request, streams: 7 }),
        ReConfigParameter::AddIncomingStreams(AddIncomingStreams { request, streams: 7 }),
    ]
}

#[test]
fn resets() {
    let outgoing = OutgoingSsnReset {
        request: ASK,
        response: RequestNumber(5),
        last_tsn: Tsn(6),
        streams: list(&[0, 1, 1, 0, 0xff, 0xff]),
    };
    let bytes = [0, 13, 0, 22, 1, 2, 3, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 1, 1, 0, 0xff, 0xff];
    round_trip(ReConfigParameter::OutgoingSsnReset(outgoing), &bytes);
    let streams: Vec<u16> = outgoing.streams.iter().map(|stream| stream.0).collect();
    assert_eq!((streams, outgoing.streams.is_all()), (vec![1, 256, 65_535], false));
    let all = OutgoingSsnReset { streams: StreamList::default(), ..outgoing };
    round_trip(ReConfigParameter::OutgoingSsnReset(all), &[&[0, 13, 0, 16], &bytes[4..16]].concat());
    assert!(all.streams.is_all());

    let incoming = IncomingSsnReset { request: ASK, streams: list(&[0, 7]) };
    round_trip(ReConfigParameter::IncomingSsnReset(incoming), &[0, 14, 0, 10, 1, 2, 3, 4, 0, 7]);
    assert!(incoming.streams.iter().eq([StreamId(7)]));
    round_trip(ReConfigParameter::SsnTsnReset(SsnTsnReset { request: ASK }), &[0, 15, 0, 8, 1, 2, 3, 4]);
}

#[test]
fn responses() {
    let plain = Response::new(ASK, ResultCode::IN_PROGRESS);
    let bytes = [0, 16, 0, 12, 1, 2, 3, 4, 0, 0, 0, 6];
    round_trip(ReConfigParameter::Response(plain), &bytes);
    let next_tsns = Some(NextTsns { sender: Tsn(8), receiver: Tsn(0x8000_0000) });
    let whole = Response { next_tsns, ..plain };
    let numbers = [0, 0, 0, 8, 0x80, 0, 0, 0];
    round_trip(ReConfigParameter::Response(whole), &[&[0, 16, 0, 20], &bytes[4..], &numbers].concat());
}

#[test]
fn added_streams() {
    let outgoing = AddOutgoingStreams { request: ASK, streams: 258 };
    round_trip(ReConfigParameter::AddOutgoingStreams(outgoing), &[0, 17, 0, 12, 1, 2, 3, 4, 1, 2, 0, 0]);
    let incoming = AddIncomingStreams { request: ASK, streams: 258 };
    round_trip(ReConfigParameter::AddIncomingStreams(incoming), &[0, 18, 0, 12, 1, 2, 3, 4, 1, 2, 0, 0]);
    // The reserved field is ignored.
    let bytes = [0, 18, 0, 12, 1, 2, 3, 4, 1, 2, 0xaa, 0xbb];
    let raw = Parameters::new(&bytes).iter().next().unwrap().unwrap();
    assert_eq!(raw.parse_re_config(), Some(Ok(ReConfigParameter::AddIncomingStreams(incoming))));
}

#[test]
fn wrong_lengths() {
    for found in [0, 4, 11] {
        let minimum = 12;
        rejects(kind::OUTGOING_SSN_RESET, found, ParameterError::TooShort { kind: 13, minimum, found });
    }
    rejects(kind::OUTGOING_SSN_RESET, 13, ParameterError::NotAMultiple { kind: 13, element: 2, found: 13 });
    rejects(kind::INCOMING_SSN_RESET, 3, ParameterError::TooShort { kind: 14, minimum: 4, found: 3 });
    rejects(kind::INCOMING_SSN_RESET, 5, ParameterError::NotAMultiple { kind: 14, element: 2, found: 5 });
    for (kind, expected) in [
        (kind::SSN_TSN_RESET, 4),
        (kind::RESPONSE, 8),
        (kind::ADD_OUTGOING_STREAMS, 8),
        (kind::ADD_INCOMING_STREAMS, 8),
    ] {
        for found in [0, expected - 1, expected + 1, 12, 17] {
            rejects(kind, found, ParameterError::WrongLength { kind, expected, found });
        }
    }
}

#[test]
fn other_types_are_left_to_others() {
    let bytes = [0, 12, 0, 8, 0, 5, 0, 6];
    let raw = Parameters::new(&bytes).iter().next().unwrap().unwrap();
    assert_eq!(raw.parse_re_config(), None);
}

/// Section 3.1 lists ten combinations.
#[test]
fn combinations() {
    let pairs = [(0, 1), (4, 5), (3, 0), (3, 3)];
    for (first, one) in each().into_iter().enumerate() {
        let bytes = encoded(&[one]);
        let found = Combination::of(Parameters::new(&bytes));
        assert_eq!(found, Ok(Combination { first: one, second: None }));
        for (second, other) in each().into_iter().enumerate() {
            let bytes = encoded(&[one, other]);
            let found = Combination::of(Parameters::new(&bytes));
            if pairs.contains(&(first, second)) || pairs.contains(&(second, first)) {
                assert_eq!(found, Ok(Combination { first: one, second: Some(other) }));
                assert!(found.unwrap().iter().eq([one, other]));
            } else {
                assert_eq!(found, Err(CombinationError::NotAllowed), "{first} and {second}");
            }
        }
    }
}

#[test]
fn no_combinations() {
    assert_eq!(Combination::of(Parameters::new(&[])), Err(CombinationError::Empty));
    let three = encoded(&[each()[3]; 3]);
    assert_eq!(Combination::of(Parameters::new(&three)), Err(CombinationError::NotAllowed));
    // A length that is wrong for the type, a foreign type, and a broken frame behind a good parameter.
    for bytes in [&[0, 15, 0, 4][..], &[0, 5, 0, 8, 1, 2, 3, 4], &[0, 15, 0, 8, 1, 2, 3, 4, 0, 15, 0, 9]] {
        assert_eq!(Combination::of(Parameters::new(bytes)), Err(CombinationError::Invalid), "{bytes:?}");
        assert!(CombinationError::Invalid.to_string() == CombinationError::Invalid.text());
    }
}
