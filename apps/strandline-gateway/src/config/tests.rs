use std::path::PathBuf;

use strandline::encryption::{Fingerprint, create_identity};

use super::{Args, ConfigError, Security, Settings};
use crate::config::ListenerKind;
use crate::mapping::Map;
use crate::peer_identity::PeerIdentity;

/// A peer at an address, without a key.
fn at(address: [u8; 4]) -> PeerIdentity {
    PeerIdentity { address: address.into(), key: None }
}

/// Parses options as the program does.
fn read(options: &str) -> Result<Settings, ConfigError> {
    Settings::read_with(&args(options), None)
}

fn args(options: &str) -> Args {
    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }
    let words = std::iter::once("gateway").chain(options.split_whitespace());
    <Program as clap::Parser>::try_parse_from(words).unwrap().args
}

/// As [`read`], with a default key.
fn read_with_key(options: &str, key: PathBuf) -> Result<Settings, ConfigError> {
    Settings::read_with(&args(options), Some(key))
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

/// Makes a folder with a key.
fn folder_with_key(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("strandline-gateway-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    create_identity(&folder.join("key.pem"), name).unwrap();
    folder
}

#[test]
fn options_name_ways_and_peers() {
    let settings = read(
        "--peer a=192.0.2.1:9899,192.0.2.2:9899 --peer b=gw.example:9899 --socks 1080=a --http-connect 127.0.0.2:8080=b \
         --forward 5432=a:db.example:5432 --forward 81=b:[::1]:80 --reverse 0.0.0.0:2222=b:localhost:22",
    )
    .unwrap();
    assert_eq!(settings.peers[0].addresses.len(), 2);
    let listeners: Vec<_> =
        settings.listeners.iter().map(|listener| (listener.listen.to_string(), listener.peer)).collect();
    let expected = [("127.0.0.1:1080", 0), ("127.0.0.2:8080", 1), ("127.0.0.1:5432", 0), ("127.0.0.1:81", 1)];
    assert_eq!(listeners, expected.map(|(listen, peer)| (listen.to_owned(), peer)));
    assert_eq!(settings.listeners[3].kind, ListenerKind::Forward { to: "[::1]:80".parse().unwrap() });
    assert_eq!(settings.reverses[0].to.to_string(), "localhost:22");
}

#[test]
fn the_only_peer_need_not_be_named() {
    let settings = read("--peer a=192.0.2.1:9899 --socks 1080 --forward 5432=db.example:5432").unwrap();
    assert_eq!(settings.listeners[1].kind, ListenerKind::Forward { to: "db.example:5432".parse().unwrap() });
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
fn ways_in_beyond_loopback_name_their_clients() {
    for way in ["--socks", "--http-connect", "--forward", "--forward udp/"] {
        let way = way.strip_suffix("udp/").map_or(format!("{way} "), |way| format!("{way}udp/"));
        let to = if way.contains("forward") { "=h:1" } else { "" };
        for listen in ["0.0.0.0:1080", "[::]:1080", "192.0.2.1:1080"] {
            let options = format!("--peer a=127.0.0.1:1 {way}{listen}{to}");
            let error = error(&options);
            assert!(error.contains("[0].listen") && error.contains("--from"), "{options}: {error}");
            let settings = read(&format!("{options} --from 192.0.2.0/24 --from 2001:db8::/32")).unwrap();
            let tcp = settings.listeners.iter().map(|listener| &listener.from);
            let from = tcp.chain(settings.udp_forwards.iter().map(|forward| &forward.from)).next().unwrap();
            assert!(from.include([192, 0, 2, 7].into()) && !from.include([127, 0, 0, 1].into()));
            let flaws = read(&format!("{options} --insecure")).unwrap().flaws;
            assert!(flaws.iter().any(|flaw| flaw.message.contains("all of them may use it")), "{flaws:?}");
        }
        assert!(read(&format!("--peer a=127.0.0.1:1 {way}1080{to}")).is_ok());
    }
    assert!(error("--peer a=h:1 --socks 1080 --from nowhere").contains("socks[0].from"));
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
        ("--listen 127.0.0.1:1 --multipath both", ["multipath", "coupled"]),
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
    let folder = folder_with_key("documented");
    let known = format!("b.example {0}\nlaptop {0}\n", Fingerprint::of_key(b"b"));
    std::fs::write(folder.join("known_hosts"), known).unwrap();
    for (at, example) in examples.into_iter().enumerate() {
        let example = &example.replace("/etc/strandline", &folder.display().to_string());
        let read = read_file(&format!("documented-{at}"), example);
        assert!(read.is_ok(), "{example}: {}", read.unwrap_err());
    }
    std::fs::remove_dir_all(folder).unwrap();
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
    assert!(settings.access[0].is_for(at([192, 0, 2, 7])) && !settings.access[0].is_for(at([192, 0, 3, 7])));
    assert!(settings.access[1].is_for(at([198, 51, 100, 1])));
}

#[test]
fn keys_that_exist_are_used() {
    let folder = folder_with_key("used");
    let pin = Fingerprint::of_key(b"far");
    let key = || folder.join("key.pem");
    let trusting = format!("--listen 0.0.0.0:9899 --trust {pin} --peer far=192.0.2.1:9899");
    let settings = read_with_key(&trusting, key()).unwrap();
    assert!(settings.encryption.is_some() && matches!(settings.peers[0].security, Security::Shared));
    assert!(
        settings.flaws.iter().all(|flaw| flaw.key == "access.allow" || flaw.key == "peer"),
        "{:?}",
        settings.flaws
    );
    let settings = read_with_key("--listen 0.0.0.0:9899 --insecure", key()).unwrap();
    assert!(settings.encryption.is_none(), "unless they are not wanted");
    assert!(
        error(&format!("--peer a=h:1 --socks 1 --key {}", folder.join("none").display())).contains("keygen")
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn peers_have_lists_of_their_own() {
    let folder = folder_with_key("own");
    let (key, pin) = (folder.join("key.pem").display().to_string(), Fingerprint::of_key(b"b"));
    let text = format!(
        "[encryption]\nkey = \"{key}\"\ntrust = [\"{pin}\"]\n[[peer]]\nname = \"a\"\naddresses = [\"192.0.2.1:1\"]\n\
         trust = [\"{pin}\"]\n[[peer]]\nname = \"b\"\naddresses = [\"192.0.2.2:1\"]\n\
         [[peer]]\nname = \"c\"\naddresses = [\"192.0.2.3:1\"]\ninsecure = true\n"
    );
    let settings = read_file("own", &text).unwrap();
    let securities: Vec<_> = settings.peers.iter().map(|peer| &peer.security).collect();
    assert!(
        matches!(securities[..], [Security::Own(_), Security::Shared, Security::Plain]),
        "{securities:?}"
    );
    let error = read_file("both", &format!("insecure = true\n{text}")).unwrap_err().to_string();
    assert!(error.contains("insecure"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn entries_of_access_are_for_keys() {
    let folder = folder_with_key("access-keys");
    let (laptop, other) = (Fingerprint::of_key(b"laptop"), Fingerprint::of_key(b"other"));
    let list = folder.join("known_hosts").display().to_string();
    std::fs::write(&list, format!("Laptop {laptop}\n")).unwrap();
    let encryption =
        format!("[encryption]\nkey = \"{}\"\ntrust = [\"{list}\"]\n", folder.join("key.pem").display());
    let read =
        |access: &str| read_file("access-keys", &format!("listen = \"127.0.0.1:1\"\n{encryption}{access}"));
    let settings = read(&format!("[[access]]\nkey = \"laptop\"\n[[access]]\nkey = [\"{other}\"]\n")).unwrap();
    let with = |key| PeerIdentity { key: Some(key), ..at([192, 0, 2, 1]) };
    let matched = |who| settings.access.iter().position(|access| access.is_for(who));
    assert_eq!(
        [matched(with(laptop)), matched(with(other)), matched(at([192, 0, 2, 1]))],
        [Some(0), Some(1), None]
    );
    let unknown = read("[[access]]\nkey = \"desk\"\n").unwrap_err().to_string();
    assert!(unknown.contains("access[0].key") && unknown.contains("trust add desk"), "{unknown}");
    let plain = read_file("access-plain", "listen = \"127.0.0.1:1\"\n[[access]]\nkey = \"laptop\"\n");
    assert!(plain.unwrap_err().to_string().contains("nothing is encrypted"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn options_add_to_the_table_for_any_peer() {
    let config = std::env::temp_dir().join(format!("strandline-gateway-any-{}.toml", std::process::id()));
    std::fs::write(&config, "[[access]]\nallow = [\"192.0.2.1:80\"]\n").unwrap();
    let settings = read(&format!("--listen 127.0.0.1:1 --allow 192.0.2.2:80 --config {}", config.display()));
    std::fs::remove_file(config).unwrap();
    let settings = settings.unwrap();
    assert_eq!(settings.access.len(), 1);
    for address in ["192.0.2.1:80", "192.0.2.2:80"] {
        assert!(
            settings.access[0].allow.allow(&address.parse().unwrap(), address.parse().unwrap(), false),
            "{address}"
        );
    }
    let text =
        "listen = \"127.0.0.1:1\"\n[[access]]\nallow = [\"*:1\"]\n[[access]]\nfrom = [\"192.0.2.1\"]\n";
    let flaws = read_file("behind", text).unwrap().flaws;
    assert!(flaws.iter().any(|flaw| flaw.message.contains("never count")), "{flaws:?}");
}

#[test]
fn addresses_are_given_once() {
    let far = "--peer a=192.0.2.1:9899";
    for (options, key) in [
        ("--socks 1080 --forward 1080=h:1", "forward[0].listen"),
        ("--socks 0.0.0.0:1080 --http-connect 1080", "http_connect[0].listen"),
        ("--socks 1080 --admin 127.0.0.1:1080", "socks[0].listen"),
        ("--forward udp/53=h:53 --forward udp/53=h:54", "forward[1].listen"),
        ("--socks [::]:1080 --http-connect 1080 --from ::/0", "http_connect[0].listen"),
        ("--listen 127.0.0.1:9899 --forward udp/9899=h:53", "forward[0].listen"),
        ("--tproxy 0.0.0.0:1080 --tproxy 192.0.2.1:1080", "tproxy[1].listen"),
        ("--tproxy [::]:1080 --tproxy [2001:db8::1]:1080", "tproxy[1].listen"),
        ("--tproxy 1080 --redirect [::]:1080", "tproxy[0].listen"),
        ("--tproxy [::]:1080 --redirect [::]:1080", "tproxy[0].listen"),
        ("--tproxy [2001:db8::1]:1080 --redirect [::]:1080", "tproxy[0].listen"),
        ("--tproxy [::]:1080 --socks [::1]:1080", "tproxy[0].listen"),
        ("--peer b=192.0.2.2:1,192.0.2.1:9899", "peer[1].addresses"),
        ("--peer b=192.0.2.2:1,192.0.2.2:1", "peer[1].addresses"),
    ] {
        let error = error(&format!("{far} {options}"));
        assert!(error.starts_with(key) && error.contains("already"), "{options}: {error}");
    }
    for options in [
        "--socks 0 --http-connect 0",
        "--socks 1080 --forward udp/1080=h:53",
        "--socks 127.0.0.2:1 --socks 1",
        "--tproxy 0.0.0.0:1080 --tproxy [::]:1080",
        "--tproxy [::]:1080 --socks 1080",
    ] {
        assert!(read(&format!("{far} {options}")).is_ok(), "{options}");
    }
}

#[test]
fn errors_have_file_and_line() {
    let text = "listen = \"127.0.0.1:1\"\n\n[limits]\nbuffer_mib = 1\n";
    let error = read_file("line", text).unwrap_err().to_string();
    assert!(error.contains(".toml:4: limits.buffer_mib: "), "{error}");
    let text = "listen = \"127.0.0.1:1\"\n\n[limits]\nbuffer_mib = 200\nbuffer_total_mib = 199\n";
    let error = read_file("total", text).unwrap_err().to_string();
    assert!(error.contains(".toml:5: limits.buffer_total_mib: a number from 200, "), "{error}");
    let text = "listen = \"127.0.0.1:1\"\n\n[limits]\nbytes_per_sec = 16383\n";
    let error = read_file("rate", text).unwrap_err().to_string();
    assert!(error.contains(".toml:4: limits.bytes_per_sec: a number from 16384 on; 0: no limit"), "{error}");
    let text =
        "[[peer]]\nname = \"a\"\naddresses = [\"h:1\"]\n[[forward]]\nlisten = \"1\"\nto = \"nowhere\"\n";
    let error = read_file("to", text).unwrap_err().to_string();
    assert!(error.contains(".toml:6: forward[0].to: "), "{error}");
}

/// Each line of a file that is wrong is reported, in one run.
#[test]
fn all_errors_are_reported() {
    let text = "sctp_port = 0\nlisten = \"nowhere\"\nshards = 65\nmultipath = \"both\"\nadmin_token = \"/nonexistent\"\n\
                [encryption]\nkey = \"/nonexistent/key.pem\"\n\
                [limits]\nbuffer_mib = 1\nconnections_max = 0\nkeepalive_secs = 40000\n\
                [[peer]]\nname = \"a b\"\naddresses = [\"h:1\", \"h\"]\ncontexts_max = 0\n\
                [[peer]]\nname = \"c\"\naddresses = [\"h:1\"]\nmap = \"auto\"\n\
                [[socks]]\nlisten = \"1080\"\npeer = \"b\"\nfrom = [\"x\"]\n\
                [[forward]]\nlisten = \"1080\"\npeer = \"c\"\nto = \"h\"\nlifetime_ms = 1\n\
                [[reverse]]\nlisten = \"x\"\nto = \"h\"\n\
                [[redirect]]\nlisten = \"y\"\npeer = \"c\"\ncapture = [\"z\"]\n\
                [[access]]\nkey = \"laptop\"\nfrom = [\"x\"]\nallow = [\"h\", \"h:1\", \"i\"]\nallow_udp = [\"h\"]\n\
                [[map]]\nto = [\"h\"]\nlistener = \"x\"\npeer = \"y\"\nmap = \"never\"\n\
                [[priority]]\nto = \"h\"\n\
                [[preload]]\nlisten = \"0.0.0.0:1\"\npeer = \"b\"\nfrom = [\"x\"]\n";
    let error = read_file("all", text).unwrap_err().to_string();
    let mut said: Vec<(usize, &str)> = Vec::new();
    for line in error.lines() {
        if let Some((_, place)) = line.split_once(".toml:") {
            let (number, rest) = place.split_once(": ").unwrap();
            said.push((number.parse().unwrap(), rest.split_once(": ").unwrap().0));
        }
    }
    assert!(said.is_sorted_by_key(|(line, _)| *line), "{error}");
    said.sort_unstable();
    let expected = [
        (1, "sctp_port"),
        (2, "listen"),
        (3, "shards"),
        (4, "multipath"),
        (6, "encryption"),
        (9, "limits.buffer_mib"),
        (10, "limits.connections_max"),
        (11, "limits.keepalive_secs"),
        (13, "peer[0].name"),
        (14, "peer[0].addresses"),
        (15, "peer[0].contexts_max"),
        (18, "peer[1].addresses"),
        (19, "peer[1].map"),
        (22, "socks[0].peer"),
        (23, "socks[0].from"),
        (25, "forward[0].listen"),
        (27, "forward[0].to"),
        (28, "forward[0].lifetime_ms"),
        (29, "reverse[0].peer"),
        (30, "reverse[0].listen"),
        (31, "reverse[0].to"),
        (33, "redirect[0].listen"),
        (35, "redirect[0].capture"),
        (38, "access[0].from"),
        (39, "access[0].allow"),
        (39, "access[0].allow"),
        (40, "access[0].allow_udp"),
        (42, "map[0].to"),
        (43, "map[0].listener"),
        (44, "map[0].peer"),
        (46, "priority[0].class"),
        (47, "priority[0].to"),
        (49, "preload[0].listen"),
        (50, "preload[0].peer"),
        (51, "preload[0].from"),
    ];
    assert_eq!(said, expected, "{error}");
    // That of a file, which has no line in this one.
    assert!(error.lines().any(|line| line.starts_with("/nonexistent: ")), "{error}");
    assert_eq!(error.lines().count(), expected.len() + 1, "{error}");
}

#[test]
fn mapping_needs_a_fallback() {
    let peer = "[[peer]]\nname = \"a\"\naddresses = [\"192.0.2.1:9899\"]\n";
    for (text, key, part) in [
        ("map = \"auto\"\n", "peer[0].map", "fallback"),
        ("map = \"sometimes\"\n", "sometimes", "always"),
        ("contexts_max = 0\n", "peer[0].contexts_max", "1 to 16"),
        ("[[map]]\nmap = \"auto\"\n", "map[0].map", "fallback"),
        ("[[map]]\nto = \"10.0.0.0/8\"\nmap = \"never\"\n", "map[0].to", "HOST:PORT"),
        ("[[map]]\nlistener = \"udp\"\nmap = \"never\"\n", "map[0].listener", "http_connect"),
        ("[[map]]\npeer = \"b\"\nmap = \"never\"\n", "map[0].peer", "only: a"),
        ("[[map]]\nto = \"*:22\"\n", "map", "missing"),
    ] {
        let error = read_file("mapping", &format!("{peer}{text}")).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(part), "{text}: {error}");
    }
    let of = |text: &str| read_file("mapped", &format!("{peer}{text}")).unwrap().peers[0].map;
    assert_eq!(of(""), Map::Always);
    assert_eq!(of("fallback = \"tcp\"\n"), Map::Auto);
    assert_eq!(of("fallback = \"tcp\"\nmap = \"always\"\n"), Map::Always);
    let flaws = read_file("unmapped", &format!("{peer}map = \"never\"\n")).unwrap().flaws;
    assert!(flaws.iter().any(|flaw| flaw.message.contains("no connection becomes a stream")), "{flaws:?}");
}

#[test]
fn the_first_mapping_rule_counts() {
    let settings = read(
        "--peer a=192.0.2.1:9899 --fallback-tcp --map never=*:22 --map auto=10.1.0.0/16:* --map always=*:* --map auto",
    )
    .unwrap();
    for (to, map, lists) in [
        ("10.1.0.1:22", Map::Never, false),
        ("10.1.0.1:80", Map::Auto, true),
        ("10.2.0.1:80", Map::Always, false),
        ("db.example:80", Map::Always, false),
        // Addresses of the host are listed plainly, or not at all.
        ("127.0.0.1:22", Map::Auto, false),
    ] {
        let found = super::ruled(&settings.map, &settings.peers[0], "socks", &to.parse().unwrap());
        assert_eq!((found.map, found.lists_destination), (map, lists), "{to}");
    }
    let text = "[[peer]]\nname = \"a\"\naddresses = [\"192.0.2.1:9899\"]\n\
                [[map]]\nlistener = [\"socks\"]\npeer = \"a\"\nmap = \"never\"\n";
    let settings = read_file("by-listener", text).unwrap();
    let map =
        |listener| super::ruled(&settings.map, &settings.peers[0], listener, &"h:1".parse().unwrap()).map;
    assert_eq!((map("socks"), map("forward")), (Map::Never, Map::Always));
}

#[test]
fn beginnings_depend_on_destinations() {
    let text = "listen = \"127.0.0.1:1\"\n[[priority]]\nto = \"*:22\"\nclass = \"interactive\"\n\
                [[priority]]\nto = [\"10.0.0.0/8:*\"]\nfirst_kib = 2\n[[priority]]\nto = \"*.example:*\"\nclass = \"bulk\"\n";
    let settings = read_file("priority", text).unwrap();
    for (to, bytes) in [
        ("127.0.0.1:22", u64::MAX),
        ("10.0.0.1:22", u64::MAX),
        ("10.0.0.1:80", 2048),
        ("a.example:80", 0),
        ("192.0.2.1:80", 256 << 10),
    ] {
        assert_eq!(super::beginning(&settings.priority, &to.parse().unwrap()), bytes, "{to}");
    }
    for (text, key) in [
        ("to = \"*:22\"\n", "priority[0].class"),
        ("class = \"bulk\"\nfirst_kib = 1\n", "priority[0].class"),
        ("class = \"first\"\n", "interactive"),
        ("to = \"22\"\nclass = \"bulk\"\n", "priority[0].to"),
    ] {
        let error = read_file("priority-wrong", &format!("listen = \"127.0.0.1:1\"\n[[priority]]\n{text}"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(key), "{text}: {error}");
    }
}

#[test]
fn values_that_would_have_no_effect_are_refused() {
    let peer = "[[peer]]\nname = \"b\"\naddresses = [\"192.0.2.1:9899\"]\n";
    let forward = |table: &str, more: &str| {
        format!("{peer}[[{table}]]\nlisten = \"127.0.0.1:8000\"\nto = \"10.2.0.7:80\"\n{more}\n")
    };
    let cases = [
        ("listen = \"127.0.0.1:9899\"\nsctp_port = 0\n".to_owned(), ":2: sctp_port: "),
        (format!("{peer}sctp_port = 0\n"), ":4: peer[0].sctp_port: "),
        (forward("forward", "lifetime_ms = 5"), ":7: forward[0].lifetime_ms: "),
        (forward("reverse", "idle_timeout_secs = 5"), ":7: reverse[0].idle_timeout_secs: "),
    ];
    for (text, expected) in cases {
        let told = read_file("no-effect", &text).unwrap_err().to_string();
        assert!(told.contains(expected), "{text}: {told}");
    }
    for table in ["forward", "reverse"] {
        let udp = forward(table, "protocol = \"udp\"\nlifetime_ms = 5\nidle_timeout_secs = 5");
        assert!(read_file("no-effect", &udp).is_ok(), "{udp}");
    }
}

/// Nothing at this side sets up an association of a peer that is asked to listen, but kept on demand.
#[test]
fn on_demand_peers_with_listeners_are_flaws() {
    let peer = "[[peer]]\nname = \"b\"\naddresses = [\"192.0.2.1:9899\"]\n";
    let reverse = "[[reverse]]\nlisten = \"127.0.0.1:8000\"\nto = \"127.0.0.1:80\"\n";
    let socks = "[[socks]]\nlisten = \"1080\"\n";
    let flaws = |text: String| {
        let flaws = read_file("on-demand", &text).unwrap().flaws;
        let of_reverse = flaws.iter().filter(|flaw| flaw.key == "reverse[0]");
        of_reverse.map(|flaw| flaw.message.clone()).collect::<Vec<_>>()
    };
    let on_demand = "keep = \"on-demand\"\n";
    let found = flaws(format!("{peer}{on_demand}{reverse}"));
    assert!(matches!(&found[..], [one] if one.contains("it never listens")), "{found:?}");
    let found = flaws(format!("{peer}{on_demand}{reverse}{socks}"));
    assert!(matches!(&found[..], [one] if one.contains("only while clients")), "{found:?}");
    assert_eq!(flaws(format!("{peer}{reverse}")), [""; 0]);
}
