use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    network: NetworkArgs,
}

fn read(arguments: &str) -> Result<Topology, String> {
    let words = std::iter::once("x").chain(arguments.split_whitespace());
    let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
    line.network.topology().map_err(|error| format!("{error:#}"))
}

#[test]
fn options_become_links() {
    let text = "--rtt 60ms --rate 100mbit --loss-every 10 --to-left loss=none,delay=5ms --path queue=9k --path rate=1mbit";
    let topology = read(text).unwrap();
    let [first, second] = topology.paths.as_slice() else { panic!("{topology:?}") };
    assert_eq!((first[0].delay, first[1].delay), (Duration::from_millis(30), Duration::from_millis(5)));
    assert_eq!((first[0].loss, first[1].loss), (Loss::EveryNth(10), Loss::None));
    assert_eq!((first[0].queue_bytes_max, second[0].queue_bytes_max), (9000, 1_500_000));
    assert_eq!((first[0].rate_bps, second[1].rate_bps), (100_000_000, 1_000_000));
}

#[test]
fn a_perfect_link_is_the_default() {
    let topology = read("").unwrap();
    let perfect = LinkConfig { queue_bytes_max: 1_500_000, ..LinkConfig::default() };
    assert_eq!(topology.paths, [[perfect.clone(), perfect]]);
}

#[test]
fn mistakes_say_what_is_right() {
    for (arguments, hint) in [
        ("--rate 100", "100mbit"),
        ("--delay 30", "30ms"),
        ("--delay 1ms --rtt 1ms", "cannot be used with"),
        ("--loss 1% --loss-every 3", "cannot be used with"),
        ("--queue 50ms", "--rate"),
        ("--to-left cut", "--schedule '0s cut'"),
        ("--mtu 100", "576"),
        ("--schedule @/does/not/exist", "/does/not/exist"),
        ("--schedule 1s", "'5s cut'"),
        ("--ipv6 --mtu 600", "1280"),
    ] {
        let message = read(arguments).unwrap_err();
        assert!(message.contains(hint), "{arguments}: {message}");
    }
    let line = ["x", "--schedule", "1s path=2 cut"];
    let message = format!("{:#}", Line::parse_from(line).network.topology().unwrap_err());
    assert!(message.contains("no path 2"), "{message}");
}
