use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    args: Args,
}

const TCP: &str = "http://127.0.0.1:8080/";
const SCTP: &str = "http+sctp://127.0.0.1:8080/";

fn plan(arguments: &[&str]) -> Result<Plan> {
    Program::try_parse_from(["load"].iter().chain(arguments))?.args.plan()
}

#[test]
fn options_select_the_kind_of_load() {
    let cases: [(&[&str], Load); 5] = [
        (
            &[TCP],
            Load::Sessions { count: 1, requests: 1, bursts: vec![1], think: Duration::ZERO, rate: None },
        ),
        (
            &[SCTP, "--sessions", "5", "--rate", "25", "--burst", "10", "--think", "0.5"],
            Load::Sessions {
                count: 5,
                requests: 10,
                bursts: vec![10],
                think: Duration::from_millis(500),
                rate: Some(25.0),
            },
        ),
        (
            &[TCP, "--burst", "1,40", "--session-requests", "81"],
            Load::Sessions { count: 1, requests: 81, bursts: vec![1, 40], think: Duration::ZERO, rate: None },
        ),
        (
            &[TCP, "--concurrency", "3", "--requests", "7"],
            Load::Closed { concurrency: 3, end: End::Requests(7) },
        ),
        (&[TCP, "--rate", "200", "--duration", "2.5"], Load::Open { rate: 200.0, count: 500 }),
    ];
    for (arguments, load) in cases {
        assert_eq!(plan(arguments).unwrap().load, load, "{arguments:?}");
    }
    assert_eq!(plan(&[SCTP, "--sessions", "5", "--burst", "10"]).unwrap().load.planned(), Some(50));
    let closed = plan(&[TCP, "--concurrency", "3"]).unwrap();
    assert_eq!((closed.load.planned(), closed.timeout), (None, Some(Duration::from_secs(15))));
    assert_eq!(plan(&[TCP, "--timeout", "0"]).unwrap().timeout, None);
}

#[test]
fn connections_depend_on_transport_and_load() {
    let cases: [(&[&str], Transport, usize, u16); 7] = [
        (&[TCP], Transport::Tcp, 1, 1),
        (&[SCTP], Transport::Sctp, 1, 100),
        (&[TCP, "--transport", "sctp", "--streams", "10"], Transport::Sctp, 1, 10),
        (&[TCP, "--concurrency", "32"], Transport::Tcp, 32, 1),
        (&[TCP, "--rate", "10"], Transport::Tcp, 100, 1),
        (&[TCP, "--concurrency", "32", "--http2", "--streams", "8"], Transport::Tcp, 1, 8),
        (&[TCP, "--burst", "50", "--connections", "6"], Transport::Tcp, 6, 1),
    ];
    for (arguments, transport, connections, streams) in cases {
        let plan = plan(arguments).unwrap();
        let got = (plan.transport, plan.connections, plan.streams);
        assert_eq!(got, (transport, connections, streams), "{arguments:?}");
    }
}

#[test]
fn contradictions_are_refused() {
    let cases: [&[&str]; 14] = [
        &["https://127.0.0.1/"],
        &["http+sctp:///path"],
        &["http://127.0.0.1:0/"],
        &[TCP, "http://127.0.0.2:8080/"],
        &[TCP, SCTP],
        &[SCTP, "--http2"],
        &[TCP, "--streams", "10"],
        &[TCP, "--congestion", "bbr"],
        &[SCTP, "--congestion", "reno"],
        &[TCP, "--requests", "10"],
        &[TCP, "--concurrency", "2", "--sessions", "2"],
        &[TCP, "--concurrency", "2", "--rate", "2"],
        &[TCP, "--header", "nothing"],
        &[TCP, "--rate", "0"],
    ];
    for arguments in cases {
        assert!(plan(arguments).is_err(), "{arguments:?}");
    }
}

#[test]
fn descriptors_are_counted_before_the_start() {
    let descriptors = |arguments: &[&str]| plan(arguments).unwrap().descriptors();
    assert_eq!(descriptors(&[TCP, "--sessions", "50", "--burst", "4", "--connections", "6"]), 200);
    assert_eq!(descriptors(&[TCP, "--sessions", "50", "--rate", "9", "--burst", "4"]), 1);
    assert_eq!(descriptors(&[TCP, "--concurrency", "32"]), 32);
    assert!(check_descriptors(19_800, 19_800).is_ok());
    let error = check_descriptors(19_801, 19_800).unwrap_err().to_string();
    assert!(error.contains("19801") && error.contains("ulimit"), "{error}");
}

#[test]
fn associations_get_the_streams_and_the_controller() {
    let args = ["load", SCTP, "--streams", "10", "--rfc9260", "--congestion", "bbr"];
    let config = Program::try_parse_from(args).unwrap().args.association(10);
    assert_eq!((config.outbound_streams, config.inbound_streams_max), (10, 10));
    assert_eq!(config.congestion, Algorithm::Bbr);
    assert_eq!(config.recovery, AssociationConfig::rfc9260().recovery);
}
