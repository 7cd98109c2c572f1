use super::*;
use clap::Parser;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn parse(line: &str) -> Result<Args> {
    let args = Line::try_parse_from(std::iter::once("test").chain(line.split_whitespace()))?.args;
    args.check()?;
    Ok(args)
}

#[test]
fn the_ladder_rises_to_the_count() {
    let args = parse("").unwrap();
    assert_eq!(args.steps_for(Transport::Sctp), [1, 10, 100, 1000, 10_000, 100_000, 1_000_000]);
    assert_eq!(args.steps_for(Transport::Tcp), [1, 10, 100, 1000, 10_000, 100_000]);
    assert_eq!(parse("--count 1").unwrap().steps_for(Transport::Sctp), [1]);
    assert_eq!(parse("--count 250").unwrap().steps_for(Transport::Sctp), [1, 10, 100, 250]);
    let own = parse("--steps 5,50 --tcp-max 20").unwrap();
    assert_eq!((own.steps_for(Transport::Sctp), own.steps_for(Transport::Tcp)), (vec![5, 50], vec![5]));
    let names = parse("--transport sctp-many,sctp,sctp-one").unwrap().transport;
    assert_eq!(names, [Transport::Sctp, Transport::Sctp, Transport::SctpOne]);
    assert_eq!(parse("--steps 50 --tcp-max 20").unwrap().steps_for(Transport::Tcp), [20]);
}

#[test]
fn nonsense_is_refused() {
    for line in [
        "--count 0",
        "--count 4000001",
        "--transport udp",
        "--steps 10,1",
        "--steps 0",
        "--heartbeat -1",
        "--hold nan",
        "--rate 0",
        "--size 0",
        "--timeout 0",
        "--udp-address 192.0.2.1:9899",
    ] {
        parse(line).expect_err(line);
    }
}
