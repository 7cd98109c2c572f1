#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

#[test]
fn numbers_have_letters_for_their_powers() {
    assert_eq!(scaled("1500", 1024).unwrap(), 1500);
    assert_eq!(scaled("64K", 1024).unwrap(), 65_536);
    assert_eq!(scaled("1.5m", 1000).unwrap(), 1_500_000);
    assert_eq!(scaled("2G", 1024).unwrap(), 2 << 30);
    assert_eq!(scaled("3t", 1000).unwrap(), 3_000_000_000_000);
    for wrong in ["", "K", "-1", "1KB", "nan", "inf", "1e30", "é"] {
        assert!(scaled(wrong, 1024).is_err(), "{wrong}");
    }
    assert!(size("0").is_err() && size("17M").is_err() && size("16M").is_ok());
    assert!(buffer("1000").is_err() && interval("0.01").is_err() && rate("0").is_err());
}

#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    args: ClientArgs,
}

fn refusal(words: &str) -> Option<String> {
    let words = format!("client 192.0.2.7 --transport tcp {words}");
    let cli = <Cli as clap::Parser>::try_parse_from(words.split_whitespace()).unwrap();
    cli.args.parameters().err().map(|error| error.to_string())
}

#[test]
fn what_tcp_lacks_is_refused_with_tcp() {
    for switch in [
        "--rfc9260",
        "--ecn",
        "--path-congestion 192.0.2.7=bbr",
        "--recovery rfc9260",
        "--fast-retransmit other-path",
        "--multipath coupled",
        "--sack-frequency 6",
        "--burst 0",
        "--no-bundling",
        "--zero-checksum",
        "--unordered",
        "--no-copy",
        "--raw",
        "--pauses",
        "--trace run.jsonl",
        "--address 192.0.2.1",
        "--streams 2",
        "--shards 2",
        "--congestion swift",
    ] {
        let told = refusal(switch).unwrap_or_else(|| panic!("{switch} was taken"));
        let (name, _) = switch.split_once(' ').unwrap_or((switch, ""));
        assert!(told.contains(name), "{switch}: {told}");
    }
    for switch in ["", "--congestion bbr", "--congestion rfc9260", "--receive-buffer 64K", "--nagle"] {
        assert_eq!(refusal(switch), None, "{switch}");
    }
}
