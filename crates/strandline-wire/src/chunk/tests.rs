use super::i_forward_tsn::SkippedMessage;
use super::stream_credit::Credit;
use super::*;
use crate::action::UnrecognisedAction;
use crate::builder::PacketBuilder;
use crate::cause::{Cause, Causes};
use crate::error::{FramingError, ParameterError};
use crate::number::{AsconfNumber, Fsn, Mid, Ppid, Ssn, StreamId, Tsn, VerificationTag};
use crate::packet::Packet;
use crate::parameter::Parameters;
use crate::tlv::TlvWriter;

/// Parses one chunk given as bytes. Fills in its length field.
fn parse_then<R>(bytes: &[u8], then: impl FnOnce(Result<Chunk<'_>, ChunkError>) -> R) -> R {
    let mut packet = vec![0; 12];
    packet.extend_from_slice(bytes);
    let length = u16::try_from(bytes.len()).unwrap();
    packet[14..16].copy_from_slice(&length.to_be_bytes());
    then(Packet::parse(&packet).unwrap().chunks().next().unwrap().unwrap().parse())
}

#[track_caller]
fn rejects(bytes: &[u8], error: ChunkError) {
    parse_then(bytes, |chunk| assert_eq!(chunk, Err(error)));
}

#[track_caller]
fn round_trip(chunk: &Chunk<'_>, bytes: &[u8]) {
    let mut buffer = [0xff; 256];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    assert!(builder.push(chunk));
    let len = builder.finish();
    assert_eq!(&buffer[12..12 + bytes.len()], bytes);
    assert!(buffer[12 + bytes.len()..len].iter().all(|&padding| padding == 0));
    let raw = Packet::parse(&buffer[..len]).unwrap().chunks().next().unwrap().unwrap();
    assert_eq!(raw.parse().as_ref(), Ok(chunk));
}

const PLAIN_DATA: Data<'_> = Data {
    tsn: Tsn(0x0102_0304),
    stream: StreamId(5),
    ssn: Ssn(6),
    ppid: Ppid(7),
    unordered: false,
    beginning: false,
    ending: false,
    immediate: false,
    payload: b"x",
};

#[test]
fn data() {
    let fields = [1, 2, 3, 4, 0, 5, 0, 6, 0, 0, 0, 7, b'x'];
    let bytes = |flags| [&[0, flags, 0, 17][..], &fields].concat();
    round_trip(&Chunk::Data(PLAIN_DATA), &bytes(0));
    round_trip(&Chunk::Data(Data { ending: true, ..PLAIN_DATA }), &bytes(1));
    round_trip(&Chunk::Data(Data { beginning: true, ..PLAIN_DATA }), &bytes(2));
    round_trip(&Chunk::Data(Data { unordered: true, ..PLAIN_DATA }), &bytes(4));
    round_trip(&Chunk::Data(Data { immediate: true, ..PLAIN_DATA }), &bytes(8));
    // Reserved flags are ignored.
    parse_then(&bytes(0xf0), |chunk| assert_eq!(chunk, Ok(Chunk::Data(PLAIN_DATA))));
}

#[test]
fn data_without_user_data_parses() {
    let empty = Data { payload: b"", ..PLAIN_DATA };
    round_trip(&Chunk::Data(empty), &[0, 0, 0, 16, 1, 2, 3, 4, 0, 5, 0, 6, 0, 0, 0, 7]);
    for found in 0..12 {
        rejects(&vec![0; 4 + found], ChunkError::TooShort { kind: 0, minimum: 12, found });
    }
}

#[test]
fn init_and_init_ack() {
    let mut bytes = vec![1, 0, 0, 28];
    bytes.extend([1, 2, 3, 4, 0, 1, 0, 0, 0, 10, 0, 20, 5, 6, 7, 8, 0, 5, 0, 8, 192, 0, 2, 1]);
    let init = Init {
        initiate_tag: VerificationTag(0x0102_0304),
        a_rwnd: 65_536,
        outbound_streams: 10,
        inbound_streams: 20,
        initial_tsn: Tsn(0x0506_0708),
        parameters: Parameters::new(&[0, 5, 0, 8, 192, 0, 2, 1]),
    };
    round_trip(&Chunk::Init(init), &bytes);
    bytes[0] = 2;
    round_trip(&Chunk::InitAck(init), &bytes);
    for kind in [1, 2] {
        for found in 0..16 {
            let mut bytes = vec![0; 4 + found];
            bytes[0] = kind;
            rejects(&bytes, ChunkError::TooShort { kind, minimum: 16, found });
        }
    }
}

#[test]
fn auth() {
    let mac = [0xaa; 20];
    let bytes = [&[15, 0, 0, 28, 0, 2, 0, 1][..], &mac].concat();
    round_trip(&Chunk::Auth(Auth { key: 2, hmac: 1, mac: &mac }), &bytes);
    round_trip(&Chunk::Auth(Auth { key: 0, hmac: 0xffff, mac: &[] }), &[15, 0, 0, 8, 0, 0, 0xff, 0xff]);
    // Flags are ignored.
    let flagged = [&[15, 0xff, 0, 28, 0, 2, 0, 1][..], &mac].concat();
    parse_then(&flagged, |chunk| assert_eq!(chunk, Ok(Chunk::Auth(Auth { key: 2, hmac: 1, mac: &mac }))));
    for found in 0..4 {
        rejects(
            &[&[15, 0, 0, 0][..], &vec![0; found]].concat(),
            ChunkError::TooShort { kind: 15, minimum: 4, found },
        );
    }
    // A receiver that does not know the type discards it and what follows (RFC 4895 section 5).
    assert_eq!(UnrecognisedAction::of(kind::AUTH), UnrecognisedAction::Stop);
}

/// The example of draft-tuexen-tsvwg-sctp-multipath section 4.3, case 2: the receiver may revoke what it
/// can't deliver yet.
#[test]
fn nr_sack_of_the_draft() {
    #[rustfmt::skip]
    let bytes = [
        16, 0, 0, 40, 0, 0, 0, 3, 0, 0, 0x0f, 0xa0, 0, 2, 0, 3, 0, 0, 0, 0,
        0, 8, 0, 8, 0, 11, 0, 12,
        0, 2, 0, 5, 0, 10, 0, 10, 0, 13, 0, 13,
    ];
    parse_then(&bytes, |chunk| {
        let Ok(Chunk::NrSack(sack)) = chunk else { panic!("{chunk:?}") };
        assert_eq!((sack.cumulative_tsn(), sack.a_rwnd()), (Tsn(3), 4000));
        let offsets = |blocks: &mut dyn Iterator<Item = GapBlock>| -> Vec<_> {
            blocks.map(|block| (block.start, block.end)).collect()
        };
        let kept = [(2, 5), (10, 10), (13, 13)];
        assert_eq!(offsets(&mut sack.non_renegable()), kept);
        let all = offsets(&mut sack.gap_blocks());
        assert_eq!((&all[..2], &all[2..]), (&[(8, 8), (11, 12)][..], &kept[..]));
        assert_eq!(sack.duplicates().len(), 0);
        round_trip(&Chunk::NrSack(sack), &bytes);
    });
    // A receiver that does not know the type discards it and what follows.
    assert_eq!(UnrecognisedAction::of(kind::NR_SACK), UnrecognisedAction::Stop);
}

#[test]
fn nr_sack_counts_must_agree_with_the_length() {
    let sack = |counts: [u16; 3], list_len: usize| {
        let mut bytes = vec![16, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2];
        bytes.extend(counts.map(u16::to_be_bytes).concat());
        // Reserved bits are ignored.
        bytes.extend([0xff, 0xff]);
        bytes.resize(20 + list_len, 0xab);
        bytes
    };
    for counts in [[0, 0, 0], [3, 0, 0], [0, 3, 0], [0, 0, 3], [1, 2, 3]] {
        let exact = 4 * counts.iter().map(|count| usize::from(*count)).sum::<usize>();
        let [renegable, non_renegable, duplicates] = counts;
        parse_then(&sack(counts, exact), |chunk| {
            let Ok(Chunk::NrSack(sack)) = chunk else { panic!("{chunk:?}") };
            assert_eq!(sack.gap_blocks().len(), usize::from(renegable + non_renegable));
            assert_eq!(sack.non_renegable().len(), usize::from(non_renegable));
            assert_eq!(sack.duplicates().len(), usize::from(duplicates));
        });
        for found in (exact.saturating_sub(4)..exact).chain(exact + 1..=exact + 4) {
            let error = ChunkError::NrSackCounts { renegable, non_renegable, duplicates, found };
            rejects(&sack(counts, found), error);
        }
    }
    let most = 0xffff;
    let error = ChunkError::NrSackCounts { renegable: most, non_renegable: most, duplicates: most, found: 8 };
    rejects(&sack([most; 3], 8), error);
    for found in 0..16 {
        let mut bytes = vec![0; 4 + found];
        bytes[0] = 16;
        rejects(&bytes, ChunkError::TooShort { kind: 16, minimum: 16, found });
    }
}

/// The example of RFC 9260 section 3.3.4: 10 to 12, 14, 15 and 17 have arrived.
#[test]
fn sack_of_the_rfc() {
    let bytes = [3, 0, 0, 24, 0, 0, 0, 12, 0, 0, 0x12, 0x34, 0, 2, 0, 0, 0, 2, 0, 3, 0, 5, 0, 5];
    parse_then(&bytes, |chunk| {
        let Ok(Chunk::Sack(sack)) = chunk else { panic!("{chunk:?}") };
        assert_eq!(sack.cumulative_tsn(), Tsn(12));
        assert_eq!(sack.a_rwnd(), 4660);
        let blocks: Vec<_> = sack.gap_blocks().collect();
        assert_eq!(blocks, [GapBlock { start: 2, end: 3 }, GapBlock { start: 5, end: 5 }]);
        assert_eq!(sack.duplicates().len(), 0);
        round_trip(&Chunk::Sack(sack), &bytes);
    });
}

#[test]
fn sack_counts_must_agree_with_the_length() {
    let sack = |gaps: u16, duplicates: u16, list_len: usize| {
        let mut bytes = vec![3, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2];
        bytes.extend(gaps.to_be_bytes());
        bytes.extend(duplicates.to_be_bytes());
        bytes.resize(16 + list_len, 0xab);
        bytes
    };
    for (gaps, duplicates) in [(0, 0), (3, 0), (0, 3), (1, 2), (100, 200)] {
        let exact = 4 * (usize::from(gaps) + usize::from(duplicates));
        parse_then(&sack(gaps, duplicates, exact), |chunk| {
            let Ok(Chunk::Sack(sack)) = chunk else { panic!("{chunk:?}") };
            assert_eq!(sack.gap_blocks().len(), usize::from(gaps));
            assert_eq!(sack.duplicates().len(), usize::from(duplicates));
            assert!(sack.duplicates().all(|tsn| tsn == Tsn(0xabab_abab)));
        });
        for found in (exact.saturating_sub(4)..exact).chain(exact + 1..=exact + 4) {
            let error = ChunkError::SackCounts { gap_blocks: gaps, duplicates, found };
            rejects(&sack(gaps, duplicates, found), error);
        }
    }
    let error = ChunkError::SackCounts { gap_blocks: 0xffff, duplicates: 0xffff, found: 8 };
    rejects(&sack(0xffff, 0xffff, 8), error);
    for found in 0..12 {
        let mut bytes = vec![0; 4 + found];
        bytes[0] = 3;
        rejects(&bytes, ChunkError::TooShort { kind: 3, minimum: 12, found });
    }
}

#[test]
fn forward_tsn() {
    let bytes = [192, 0, 0, 16, 0, 0, 1, 2, 0, 5, 0, 6, 0xff, 0xff, 0, 0];
    parse_then(&bytes, |chunk| {
        let Ok(Chunk::ForwardTsn(forward)) = chunk else { panic!("{chunk:?}") };
        assert_eq!(forward.new_cumulative_tsn(), Tsn(258));
        let skipped: Vec<_> = forward.skipped().collect();
        assert_eq!(skipped, [(StreamId(5), Ssn(6)), (StreamId(0xffff), Ssn(0))]);
        round_trip(&Chunk::ForwardTsn(forward), &bytes);
    });
    parse_then(&bytes[..8], |chunk| {
        let Ok(Chunk::ForwardTsn(forward)) = chunk else { panic!("{chunk:?}") };
        assert_eq!(forward.skipped().len(), 0);
    });
    for found in 0..4 {
        rejects(&bytes[..4 + found], ChunkError::TooShort { kind: 192, minimum: 4, found });
    }
    for found in [1, 2, 3, 5, 7] {
        rejects(&bytes[..8 + found], ChunkError::NotAMultiple { kind: 192, element: 4, found });
    }
}

#[test]
fn forward_tsn_is_written_whole_or_not() {
    let skipped = [(StreamId(5), Ssn(6)), (StreamId(7), Ssn(8))];
    for (room, fits) in [(8, 0), (11, 0), (12, 1), (16, 2)] {
        assert_eq!(forward_tsn::streams_in(room), fits);
        let mut buffer = vec![0xff; 12 + room];
        let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
        let listed = skipped.into_iter();
        assert_eq!(forward_tsn::write(&mut builder, Tsn(258), listed), fits == 2, "{room}");
        assert_eq!(builder.len(), if fits == 2 { 28 } else { 12 });
        if fits == 2 {
            assert_eq!(&buffer[12..], [192, 0, 0, 16, 0, 0, 1, 2, 0, 5, 0, 6, 0, 7, 0, 8]);
        }
    }
    let mut buffer = vec![0; 80_000];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    let endless = core::iter::repeat((StreamId(1), Ssn(1)));
    let most = forward_tsn::streams_in(builder.remaining());
    assert!(!forward_tsn::write(&mut builder, Tsn(258), endless.clone()));
    assert!(!forward_tsn::write(&mut builder, Tsn(258), endless.clone().take(most + 1)));
    assert!(forward_tsn::write(&mut builder, Tsn(258), endless.take(most)));
    assert_eq!((most, builder.remaining()), (16_378, 0));
}

const PLAIN_I_DATA: IData<'_> = IData {
    tsn: Tsn(0x0102_0304),
    stream: StreamId(5),
    mid: Mid(0x0600_0007),
    fsn: Fsn(0x0800_0009),
    ppid: Ppid(0),
    unordered: false,
    beginning: false,
    ending: false,
    immediate: false,
    payload: b"x",
};

#[test]
fn i_data() {
    let fields = [1, 2, 3, 4, 0, 5, 0, 0, 6, 0, 0, 7, 8, 0, 0, 9, b'x'];
    let bytes = |flags| [&[64, flags, 0, 21][..], &fields].concat();
    round_trip(&Chunk::IData(PLAIN_I_DATA), &bytes(0));
    round_trip(&Chunk::IData(IData { ending: true, ..PLAIN_I_DATA }), &bytes(1));
    round_trip(&Chunk::IData(IData { unordered: true, ..PLAIN_I_DATA }), &bytes(4));
    round_trip(&Chunk::IData(IData { immediate: true, ..PLAIN_I_DATA }), &bytes(8));
    // The first fragment has the PPID in the place of the FSN, which is 0.
    let first = IData { beginning: true, fsn: Fsn(0), ppid: Ppid(0x0800_0009), ..PLAIN_I_DATA };
    round_trip(&Chunk::IData(first), &bytes(2));
    // Reserved flags and the reserved field are ignored.
    let mut reserved = bytes(0xf0);
    reserved[10..12].fill(0xff);
    parse_then(&reserved, |chunk| assert_eq!(chunk, Ok(Chunk::IData(PLAIN_I_DATA))));
    let empty = IData { payload: b"", ..PLAIN_I_DATA };
    round_trip(&Chunk::IData(empty), &[&[64, 0, 0, 20][..], &fields[..16]].concat());
    for found in 0..16 {
        rejects(&vec![64; 4 + found], ChunkError::TooShort { kind: 64, minimum: 16, found });
    }
}

#[test]
fn i_data_of_a_data_chunk() {
    let data = Data { beginning: true, ..PLAIN_DATA };
    let first = IData::of(data, Mid(1), Fsn(9));
    assert_eq!((first.mid, first.fsn, first.ppid, first.beginning), (Mid(1), Fsn(0), Ppid(7), true));
    let later = IData::of(PLAIN_DATA, Mid(1), Fsn(9));
    assert_eq!((later.mid, later.fsn, later.ppid, later.payload), (Mid(1), Fsn(9), Ppid(0), &b"x"[..]));
}

#[test]
fn i_forward_tsn() {
    let bytes = [194, 0, 0, 24, 0, 0, 1, 2, 0, 5, 0, 1, 0, 6, 0, 7, 0xff, 0xff, 0, 0, 0, 0, 0, 0];
    let entry =
        |stream, unordered, mid| SkippedMessage { stream: StreamId(stream), unordered, mid: Mid(mid) };
    let entries = [entry(5, true, 0x0006_0007), entry(0xffff, false, 0)];
    parse_then(&bytes, |chunk| {
        let Ok(Chunk::IForwardTsn(forward)) = chunk else { panic!("{chunk:?}") };
        assert_eq!(forward.new_cumulative_tsn(), Tsn(258));
        assert_eq!(forward.skipped().collect::<Vec<_>>(), entries);
        round_trip(&Chunk::IForwardTsn(forward), &bytes);
    });
    for found in 0..4 {
        rejects(&bytes[..4 + found], ChunkError::TooShort { kind: 194, minimum: 4, found });
    }
    for found in [1, 4, 7, 9, 15] {
        rejects(&bytes[..8 + found], ChunkError::NotAMultiple { kind: 194, element: 8, found });
    }
    for (room, fits) in [(8, 0), (15, 0), (16, 1), (24, 2)] {
        assert_eq!(i_forward_tsn::entries_in(room), fits);
        let mut buffer = vec![0xff; 12 + room];
        let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
        let written = i_forward_tsn::write(&mut builder, Tsn(258), entries.into_iter());
        assert_eq!((written, builder.len()), if fits == 2 { (true, 36) } else { (false, 12) });
        if written {
            assert_eq!(&buffer[12..], bytes);
        }
    }
    let mut buffer = vec![0; 80_000];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    let most = i_forward_tsn::entries_in(builder.remaining());
    let endless = core::iter::repeat(entries[0]);
    assert!(!i_forward_tsn::write(&mut builder, Tsn(258), endless.clone().take(most + 1)));
    assert!(!i_forward_tsn::write(&mut builder, Tsn(258), endless));
}

#[test]
fn stream_credit_chunk() {
    let bytes = [
        188, 0, 0, 32, 0, 0, 1, 2, // Cumulative TSN 258.
        0, 5, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, // Stream 5.
        0xff, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1,
    ];
    let credits = [
        Credit { stream: StreamId(5), accepted: 512, limit: 65_536 },
        Credit { stream: StreamId(0xffff), accepted: u32::MAX, limit: 1 },
    ];
    parse_then(&bytes, |chunk| {
        let Ok(Chunk::StreamCredit(chunk)) = chunk else { panic!("{chunk:?}") };
        assert_eq!(chunk.cumulative_tsn(), Tsn(258));
        assert_eq!(chunk.credits().collect::<Vec<_>>(), credits);
        round_trip(&Chunk::StreamCredit(chunk), &bytes);
    });
    // Reserved bits are ignored.
    let mut reserved = bytes;
    reserved[10..12].fill(0xff);
    parse_then(&reserved, |chunk| {
        let Ok(Chunk::StreamCredit(chunk)) = chunk else { panic!("{chunk:?}") };
        assert_eq!(chunk.credits().collect::<Vec<_>>(), credits);
    });
    for found in 0..4 {
        rejects(&bytes[..4 + found], ChunkError::TooShort { kind: 188, minimum: 4, found });
    }
    for found in [1, 4, 11, 13, 23] {
        rejects(&bytes[..8 + found], ChunkError::NotAMultiple { kind: 188, element: 12, found });
    }
    for (room, fits) in [(8, 0), (19, 0), (20, 1), (31, 1), (32, 2)] {
        assert_eq!(stream_credit::entries_in(room), fits);
        let mut buffer = vec![0xff; 12 + room];
        let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
        assert_eq!(stream_credit::write(&mut builder, Tsn(258), credits.into_iter()), fits);
        assert_eq!(builder.len(), if fits == 0 { 12 } else { 20 + 12 * fits });
        if fits == 2 {
            assert_eq!(&buffer[12..], bytes);
        }
    }
    assert_eq!(UnrecognisedAction::of(kind::STREAM_CREDIT), UnrecognisedAction::Skip);
}

#[test]
fn stream_blocked_chunk() {
    let bytes = [189, 0, 0, 8, 0, 5, 0xff, 0xff];
    let streams = [StreamId(5), StreamId(0xffff)];
    parse_then(&bytes, |chunk| {
        let Ok(Chunk::StreamBlocked(chunk)) = chunk else { panic!("{chunk:?}") };
        assert_eq!(chunk.streams().collect::<Vec<_>>(), streams);
        round_trip(&Chunk::StreamBlocked(chunk), &bytes);
    });
    for found in [1, 3] {
        rejects(&bytes[..4 + found], ChunkError::NotAMultiple { kind: 189, element: 2, found });
    }
    for (room, fits) in [(4, 0), (5, 0), (8, 2)] {
        let mut buffer = vec![0; 12 + room];
        let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
        assert_eq!(stream_blocked::write(&mut builder, streams.into_iter()), fits);
        if fits == 2 {
            assert_eq!(&buffer[12..], bytes);
        }
    }
    assert_eq!(UnrecognisedAction::of(kind::STREAM_BLOCKED), UnrecognisedAction::Skip);
}

#[test]
fn heartbeat_and_its_ack() {
    let heartbeat = Heartbeat { info: &[9, 8, 7] };
    round_trip(&Chunk::Heartbeat(heartbeat), &[4, 0, 0, 11, 0, 1, 0, 7, 9, 8, 7]);
    round_trip(&Chunk::HeartbeatAck(heartbeat), &[5, 0, 0, 11, 0, 1, 0, 7, 9, 8, 7]);
    // A sender that counts the final padding in the length means the same chunk.
    parse_then(&[4, 0, 0, 0, 0, 1, 0, 7, 9, 8, 7, 0], |chunk| {
        assert_eq!(chunk, Ok(Chunk::Heartbeat(heartbeat)));
    });
}

#[test]
fn heartbeat_without_its_parameter() {
    let framing = |error| ChunkError::Framing { kind: 4, error };
    rejects(&[4, 0, 0, 0], framing(FramingError::HeaderTruncated { remaining: 0 }));
    rejects(&[4, 0, 0, 0, 0, 1, 0], framing(FramingError::HeaderTruncated { remaining: 3 }));
    rejects(&[4, 0, 0, 0, 0, 1, 0, 3], framing(FramingError::LengthTooSmall { kind: 1, length: 3 }));
    let beyond = FramingError::LengthBeyondEnd { kind: 1, length: 9, remaining: 8 };
    rejects(&[4, 0, 0, 0, 0, 1, 0, 9, 1, 2, 3, 4], framing(beyond));
    rejects(&[5, 0, 0, 0, 0, 2, 0, 4], ChunkError::NotHeartbeatInfo { kind: 5, parameter: 2 });
}

#[test]
fn abort_and_error_carry_causes() {
    let mut buffer = [0; 64];
    let mut writer = TlvWriter::new(&mut buffer);
    assert!(writer.push(&Cause::OutOfResource));
    assert!(writer.push(&Cause::UserInitiatedAbort(b"bye")));
    let causes = Causes::new(writer.finish());
    let list = [0, 4, 0, 4, 0, 12, 0, 7, b'b', b'y', b'e'];
    let abort = |tag_reflected| Chunk::Abort(Abort { tag_reflected, causes });
    round_trip(&abort(false), &[&[6, 0, 0, 15][..], &list].concat());
    round_trip(&abort(true), &[&[6, 1, 0, 15][..], &list].concat());
    round_trip(&Chunk::Error(Error { causes }), &[&[9, 0, 0, 15][..], &list].concat());
    round_trip(&Chunk::Abort(Abort { tag_reflected: false, causes: Causes::new(&[]) }), &[6, 0, 0, 4]);
}

#[test]
fn chunks_of_one_tsn() {
    round_trip(&Chunk::Shutdown(Shutdown { cumulative_tsn: Tsn(258) }), &[7, 0, 0, 8, 0, 0, 1, 2]);
    round_trip(&Chunk::Ecne(Ecne { lowest_tsn: Tsn(258), packets: None }), &[12, 0, 0, 8, 0, 0, 1, 2]);
    let counted = Chunk::Ecne(Ecne { lowest_tsn: Tsn(258), packets: Some(772) });
    round_trip(&counted, &[12, 0, 0, 12, 0, 0, 1, 2, 0, 0, 3, 4]);
    round_trip(&Chunk::Cwr(Cwr { lowest_tsn: Tsn(258) }), &[13, 0, 0, 8, 0, 0, 1, 2]);
    for kind in [7, 12, 13] {
        for found in [0, 1, 3, 5, 7, 9, 12] {
            let mut bytes = vec![0; 4 + found];
            bytes[0] = kind;
            rejects(&bytes, ChunkError::WrongLength { kind, expected: 4, found });
        }
    }
}

#[test]
fn chunks_of_nothing() {
    round_trip(&Chunk::ShutdownAck, &[8, 0, 0, 4]);
    round_trip(&Chunk::CookieAck, &[11, 0, 0, 4]);
    round_trip(&Chunk::ShutdownComplete(ShutdownComplete { tag_reflected: false }), &[14, 0, 0, 4]);
    round_trip(&Chunk::ShutdownComplete(ShutdownComplete { tag_reflected: true }), &[14, 1, 0, 4]);
    for kind in [8, 11, 14] {
        rejects(&[kind, 0, 0, 0, 1], ChunkError::WrongLength { kind, expected: 0, found: 1 });
        rejects(&[kind, 0, 0, 0, 1, 2, 3, 4], ChunkError::WrongLength { kind, expected: 0, found: 4 });
    }
}

#[test]
fn asconf() {
    let number = AsconfNumber(258);
    let address = [192, 0, 2, 1].into();
    let request = [0xc0, 2, 0, 16, 0, 0, 0, 7, 0, 5, 0, 8, 192, 0, 2, 1];
    let fixed = [0, 0, 1, 2, 0, 5, 0, 8, 192, 0, 2, 1];
    let asconf = Asconf { number, address, parameters: Parameters::new(&request) };
    round_trip(&Chunk::Asconf(asconf), &[&[0xc1, 0, 0, 32][..], &fixed, &request].concat());
    let none = Asconf { number, address, parameters: Parameters::new(&[]) };
    round_trip(&Chunk::Asconf(none), &[&[0xc1, 0, 0, 16][..], &fixed].concat());
    let v6 = Asconf { address: std::net::IpAddr::from([1_u16; 8]), ..none };
    let bytes = [&[0xc1, 0, 0, 28, 0, 0, 1, 2, 0, 6, 0, 20][..], &[0, 1].repeat(8)].concat();
    round_trip(&Chunk::Asconf(v6), &bytes);
    let short = |minimum, found| ChunkError::TooShort { kind: 0xc1, minimum, found };
    rejects(&[0xc1, 0, 0, 0], short(4, 0));
    rejects(&[0xc1, 0, 0, 0, 1, 2, 3], short(4, 3));
    rejects(&[0xc1, 0, 0, 0, 1, 2, 3, 4], short(8, 4));
    let address = |error| ChunkError::Address { kind: 0xc1, error };
    let host_name = ParameterError::NotAnAddress { kind: 11 };
    rejects(&[0xc1, 0, 0, 0, 1, 2, 3, 4, 0, 11, 0, 8, b'h', b'o', b's', b't'], address(host_name));
    let wrong = ParameterError::WrongLength { kind: 5, expected: 4, found: 2 };
    rejects(&[0xc1, 0, 0, 0, 1, 2, 3, 4, 0, 5, 0, 6, 1, 2, 0, 0], address(wrong));
    let beyond = FramingError::LengthBeyondEnd { kind: 5, length: 40, remaining: 8 };
    let beyond = ChunkError::Framing { kind: 0xc1, error: beyond };
    rejects(&[0xc1, 0, 0, 0, 1, 2, 3, 4, 0, 5, 0, 40, 1, 2, 3, 4], beyond);
}

#[test]
fn asconf_ack() {
    let number = AsconfNumber(258);
    let success = [0xc0, 5, 0, 8, 0, 0, 0, 7];
    let ack = AsconfAck { number, responses: Parameters::new(&success) };
    round_trip(&Chunk::AsconfAck(ack), &[&[0x80, 0, 0, 16, 0, 0, 1, 2][..], &success].concat());
    let bare = AsconfAck { number, responses: Parameters::new(&[]) };
    round_trip(&Chunk::AsconfAck(bare), &[0x80, 0, 0, 8, 0, 0, 1, 2]);
    for found in [0, 1, 3] {
        let mut bytes = vec![0; 4 + found];
        bytes[0] = 0x80;
        rejects(&bytes, ChunkError::TooShort { kind: 0x80, minimum: 4, found });
    }
}

#[test]
fn cookie_echo_and_pad() {
    round_trip(&Chunk::CookieEcho(CookieEcho { cookie: &[1, 2, 3] }), &[10, 0, 0, 7, 1, 2, 3]);
    round_trip(&Chunk::Pad(Pad { padding_len: 5 }), &[0x84, 0, 0, 9, 0, 0, 0, 0, 0]);
    // The receiver ignores the content of the padding.
    parse_then(&[0x84, 3, 0, 0, 1, 2], |chunk| assert_eq!(chunk, Ok(Chunk::Pad(Pad { padding_len: 2 }))));
}

#[test]
fn unknown_chunks_say_what_to_do() {
    for (kind, action) in [
        (0x3f, UnrecognisedAction::Stop),
        (0x7f, UnrecognisedAction::StopAndReport),
        (0xbf, UnrecognisedAction::Skip),
        (0xff, UnrecognisedAction::SkipAndReport),
    ] {
        parse_then(&[kind, 9, 0, 0, 1, 2], |chunk| {
            let Ok(Chunk::Unknown(raw)) = chunk else { panic!("{chunk:?}") };
            assert_eq!(raw.unrecognised_action(), action);
            assert_eq!(raw.as_bytes(), [kind, 9, 0, 6, 1, 2]);
            round_trip(&Chunk::Unknown(raw), &[kind, 9, 0, 6, 1, 2]);
        });
    }
    assert!(UnrecognisedAction::Skip.continues() && !UnrecognisedAction::Skip.reports());
    assert!(UnrecognisedAction::StopAndReport.reports() && !UnrecognisedAction::StopAndReport.continues());
}

#[test]
fn kinds_have_names() {
    let named: Vec<u8> = (0..=255).filter(|&kind| kind::name(kind).is_some()).collect();
    assert_eq!(
        named,
        [
            0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 64, 0x80, 130, 0x84, 188, 189, 192,
            0xc1, 194
        ]
    );
}
