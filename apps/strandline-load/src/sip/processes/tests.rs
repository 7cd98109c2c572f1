use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Alone {
    #[command(flatten)]
    args: Args,
}

#[test]
fn the_parts_of_all_processes_are_the_whole() {
    let text = "x register --processes 3 --users 100 --first 7 --sources 16 --outstanding 64 --serve";
    let whole = Alone::parse_from(text.split(' ')).args;
    let parts: Vec<Args> = (0..3).map(|number| part(&whole, number)).collect();
    let sum = |pick: fn(&Args) -> usize| parts.iter().map(pick).sum::<usize>();
    assert_eq!(
        (sum(|part| part.users as usize), sum(Args::sources), sum(|part| part.outstanding)),
        (100, 16, 64)
    );
    let users: Vec<_> = parts.iter().map(|part| (part.first, part.users)).collect();
    assert_eq!(users, [(7, 34), (41, 33), (74, 33)]);
    let mut local: Vec<_> = parts.iter().flat_map(Args::local).collect();
    let count = local.len();
    local.sort();
    local.dedup();
    assert_eq!((local.len(), count), (64, 64), "each has addresses of its own");
    assert!(parts.iter().all(|part| !part.serve && part.processes == 1));
    // The process must decode the order that was encoded for it.
    let told = serde_json::to_string(&parts[1]).unwrap();
    let heard: Args = serde_json::from_str(&told).unwrap();
    assert_eq!(format!("{heard:?}"), format!("{:?}", parts[1]));
}

#[test]
fn zones_of_local_addresses_reach_the_processes() {
    let text = "x register --server [fe80::2%3]:5060 --local fe80::1%3,fe80::7%4,192.0.2.1";
    let args = Alone::parse_from(text.split(' ')).args;
    let heard: Args = serde_json::from_str(&serde_json::to_string(&args).unwrap()).unwrap();
    let local: Vec<String> = heard.local().iter().map(|address| address.with_port(0).to_string()).collect();
    assert_eq!(local, ["[fe80::1%3]:0", "[fe80::7%4]:0", "192.0.2.1:0"]);
    let missing =
        Alone::parse_from(text.replace("fe80::7%4", "fe80::7").split(' ')).args.check().unwrap_err();
    assert!(missing.to_string().contains("as in fe80::7%eth0"), "{missing}");
}
