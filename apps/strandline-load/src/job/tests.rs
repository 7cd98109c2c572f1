use super::*;

/// Returns a job of one message over SCTP from the only client process; tests change the fields of interest.
pub(crate) fn job() -> Job {
    Job {
        transport: Transport::Sctp,
        content: Content::Letters,
        style: Style::Regular,
        encapsulation: Encapsulation::Udp(9899),
        server: ([127, 0, 0, 1], 7).into(),
        message_bytes: 1,
        rate: 1.0,
        count: 1,
        number: 0,
        clients: 1,
        offset_s: 0.0,
        persistent: 0,
        hold: false,
        timeout_s: 1.0,
        trace: false,
        pcap: None,
    }
}

#[test]
fn job_reaches_the_client_process_unchanged() {
    let text = serde_json::to_string(&job()).unwrap();
    let read: Job = serde_json::from_str(&text).unwrap();
    assert_eq!(format!("{read:?}"), format!("{:?}", job()));
}
