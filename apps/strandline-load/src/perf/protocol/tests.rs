use super::*;

/// Returns a test of ten seconds from client to server.
pub(crate) fn parameters() -> Parameters {
    Parameters {
        direction: Direction::Up,
        length: Length::Seconds(10.0),
        omit_seconds: 0.0,
        message_bytes: 1000,
        streams: 1,
        flows: 1,
        unordered: false,
        nagle: false,
        no_copy: false,
        byte_stream: false,
        pauses: false,
        bits_per_second: None,
    }
}

#[test]
fn messages_come_back_as_they_were() {
    let messages = [
        Message::Test(Parameters { length: Length::Bytes(u64::MAX >> 8), ..parameters() }),
        Message::Test(Parameters { bits_per_second: Some(1), ..parameters() }),
        Message::Accepted { token: "ab".to_owned() },
        Message::Refused { reason: "because".to_owned() },
        Message::Join { token: "ab".to_owned(), flow: 3, attempt: 0 },
        Message::Begin {},
        Message::Stop {},
        Message::Finished(SideReport { flows: vec![FlowReport::default()], ..SideReport::default() }),
    ];
    for message in messages {
        assert_eq!(decode(&encode(&message).unwrap()).unwrap(), message);
    }
}

#[test]
fn the_figures_of_the_largest_test_fit() {
    let number = Some(u64::MAX);
    let time = Some(1.0 / 3.0);
    let passed = Passed { seconds: 1.0 / 3.0, bytes: u64::MAX, messages: u64::MAX };
    let figures = Figures {
        retransmissions: number,
        fast_recoveries: number,
        timeouts: number,
        packets_sent: number,
        packets_received: number,
        chunks_sent: number,
        sacks_sent: number,
        ecn: Some(true),
        marks_received: Some(7),
        marks_answered: Some(6),
        rtt_us: time,
        rttvar_us: time,
        cwnd_bytes: number,
        in_flight_bytes: number,
        send_queue_bytes: number,
        receive_queue_bytes: number,
        peer_window_bytes: number,
        path_mtu_bytes: number,
    };
    let spread = Spread { min: 1.0 / 3.0, mean: 1.0 / 3.0, max: 1.0 / 3.0 };
    let flow = FlowReport {
        sent: passed,
        received: passed,
        figures,
        rtt_us: Some(spread),
        cwnd_bytes_max: number,
        longest_pause: time,
        in_time: Some(InTime { seconds: passed.seconds, bytes: passed.bytes }),
    };
    let flows = vec![flow; FLOWS_MAX.into()];
    let encoded = encode(&Message::Finished(SideReport { flows, ..SideReport::default() })).unwrap();
    assert!(encoded.len() <= CONTROL_BYTES_MAX, "{}", encoded.len());
}

#[test]
fn what_cannot_be_read_is_explained() {
    let wrong = |bytes: &[u8]| decode(bytes).unwrap_err();
    assert!(wrong(b"GET / HTTP/1.1").contains("not `strandline perf`"));
    assert!(wrong(b"").contains("not `strandline perf`"));
    assert!(wrong(br#"{"strandline_perf":2,"anything":{}}"#).contains("version 2"));
    assert!(wrong(br#"{"strandline_perf":1,"anything":{}}"#).contains("malformed control message"));
    assert!(wrong(br#"{"strandline_perf":1,"test":{"flows":-1}}"#).contains("malformed control message"));
    assert!(wrong(&vec![b' '; CONTROL_BYTES_MAX + 1]).contains("at most"));
}

#[test]
fn parameters_out_of_range_are_refused() {
    parameters().validate().unwrap();
    let wrong = [
        Parameters { length: Length::Seconds(0.0), ..parameters() },
        Parameters { length: Length::Seconds(-1.0), ..parameters() },
        Parameters { length: Length::Seconds(f64::NAN), ..parameters() },
        Parameters { length: Length::Seconds(1e9), ..parameters() },
        Parameters { length: Length::Bytes(0), ..parameters() },
        Parameters { length: Length::Bytes(u64::MAX), ..parameters() },
        Parameters { length: Length::Bytes(1), flows: 2, ..parameters() },
        Parameters { length: Length::Bytes(10), omit_seconds: 1.0, ..parameters() },
        Parameters { omit_seconds: -1.0, ..parameters() },
        Parameters { omit_seconds: f64::INFINITY, ..parameters() },
        Parameters { message_bytes: 0, ..parameters() },
        Parameters { message_bytes: SIZE_MAX + 1, ..parameters() },
        Parameters { streams: 0, ..parameters() },
        Parameters { flows: 0, ..parameters() },
        Parameters { flows: FLOWS_MAX + 1, ..parameters() },
        Parameters { flows: 65, message_bytes: SIZE_MAX, ..parameters() },
        Parameters { bits_per_second: Some(0), ..parameters() },
        Parameters { bits_per_second: Some(799), ..parameters() },
    ];
    for parameters in wrong {
        assert!(parameters.validate().is_err(), "{parameters:?}");
    }
    Parameters { bits_per_second: Some(800), ..parameters() }.validate().unwrap();
}
