use super::{Args, ConfigError, Settings};
use crate::config::WayKind;

/// Parses options as the program does.
fn read(options: &str) -> Result<Settings, ConfigError> {
    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }
    let words = std::iter::once("gateway").chain(options.split_whitespace());
    Settings::read(&<Program as clap::Parser>::try_parse_from(words).unwrap().args)
}

fn error(options: &str) -> String {
    read(options).unwrap_err().to_string()
}

/// Reads a configuration file with this text.
fn read_file(name: &str, text: &str) -> Result<Settings, ConfigError> {
    let path = std::env::temp_dir().join(format!("strandline-gateway-{name}-{}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let result = read(&format!("--config {}", path.display()));
    std::fs::remove_file(path).unwrap();
    result
}

#[test]
fn options_name_ways_and_peers() {
    let settings = read(
        "--peer a=192.0.2.1:9899,192.0.2.2:9899 --peer b=gw.example:9899 --socks 1080=a --http-connect 127.0.0.2:8080=b \
         --forward 5432=a:db.example:5432 --forward 81=b:[::1]:80 --reverse 0.0.0.0:2222=b:localhost:22",
    )
    .unwrap();
    assert_eq!(settings.peers[0].addresses.len(), 2);
    let ways: Vec<_> = settings.ways.iter().map(|way| (way.listen.to_string(), way.peer)).collect();
    let expected = [("127.0.0.1:1080", 0), ("127.0.0.2:8080", 1), ("127.0.0.1:5432", 0), ("127.0.0.1:81", 1)];
    assert_eq!(ways, expected.map(|(listen, peer)| (listen.to_owned(), peer)));
    assert_eq!(settings.ways[3].kind, WayKind::Forward { to: "[::1]:80".parse().unwrap() });
    assert_eq!(settings.reverses[0].to.to_string(), "localhost:22");
}

#[test]
fn the_only_peer_need_not_be_named() {
    let settings = read("--peer a=192.0.2.1:9899 --socks 1080 --forward 5432=db.example:5432").unwrap();
    assert_eq!(settings.ways[1].kind, WayKind::Forward { to: "db.example:5432".parse().unwrap() });
    let several = error("--peer a=192.0.2.1:1 --peer b=192.0.2.2:1 --socks 1080");
    assert!(several.contains("socks[0].peer") && several.contains("a, b"), "{several}");
    assert!(error("--peer a=192.0.2.1:1 --socks 1080=c").contains("there is no peer `c`"));
    assert!(error("--listen 127.0.0.1:1 --socks 1080").contains("no peer is defined"));
}

#[test]
fn listening_beyond_loopback_is_said_plainly() {
    for address in ["0.0.0.0:9899", "192.0.2.1:9899", "[::]:9899"] {
        assert!(error(&format!("--listen {address}")).contains("--insecure"), "{address}");
        assert!(read(&format!("--listen {address} --insecure")).is_ok());
    }
    assert!(read("--listen 127.0.0.1:9899").is_ok());
}

#[test]
fn errors_name_the_key_and_what_is_expected() {
    for (options, texts) in [
        ("", ["peer", "nothing to do"]),
        ("--peer a", ["peer[0].addresses", "HOST:PORT"]),
        ("--peer a=host", ["peer[0].addresses", "HOST:PORT"]),
        ("--peer a=h:1 --peer a=h:2", ["peer[1].name", "another peer"]),
        ("--peer a=h:1 --forward 80=nowhere", ["forward[0].to", "HOST:PORT"]),
        ("--peer a=h:1 --socks nowhere", ["socks[0].listen", "nowhere"]),
        ("--listen 127.0.0.1:1 --allow nowhere", ["access[0].allow", "HOST:PORT"]),
        ("--listen 127.0.0.1:1 --congestion fast", ["congestion", "cubic"]),
    ] {
        let error = error(options);
        assert!(texts.iter().all(|text| error.contains(text)), "{options}: {error}");
    }
}

#[test]
fn files_have_the_tables_of_the_documentation() {
    let document = include_str!("../../../../docs/gateway.md");
    let examples: Vec<&str> =
        document.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!examples.is_empty());
    for (at, example) in examples.into_iter().enumerate() {
        let read = read_file(&format!("documented-{at}"), example);
        assert!(read.is_ok(), "{example}: {}", read.unwrap_err());
    }
}

#[test]
fn unknown_keys_are_refused_with_the_known_ones() {
    let error = read_file("unknown", "listen = \"127.0.0.1:1\"\n[limits]\nconnection_max = 1\n")
        .unwrap_err()
        .to_string();
    assert!(error.contains("connection_max") && error.contains("connections_max"), "{error}");
    let error = read_file("value", "listen = 7\n").unwrap_err().to_string();
    assert!(error.contains("listen = 7"), "{error}");
}

#[test]
fn entries_of_access_are_for_their_peers() {
    let settings = read_file(
        "access",
        "listen = \"127.0.0.1:1\"\n[[access]]\nfrom = [\"192.0.2.0/24\"]\nallow = [\"db.example:5432\"]\n[[access]]\n",
    )
    .unwrap();
    assert!(
        settings.access[0].is_for([192, 0, 2, 7].into()) && !settings.access[0].is_for([192, 0, 3, 7].into())
    );
    assert!(settings.access[1].is_for([198, 51, 100, 1].into()));
}
