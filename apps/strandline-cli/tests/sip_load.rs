//! Tests of `strandline load sip` with `strandline sip`.

use std::process::Command;

use serde_json::Value;

use crate::sip_generator::load;
use crate::sip_server::{PROGRAM, Server};
use crate::waiting::{at_last, found_at_last};

/// Asserts that all requests succeeded, and no connection was lost.
fn succeeded(server: &str, arguments: &str) -> u64 {
    let report = crate::sip_generator::succeeded(server, arguments);
    assert_eq!(report["connections_lost"], 0, "{arguments}: {report}");
    report["succeeded"].as_u64().unwrap()
}

fn fails(server: &str, arguments: &str, hint: &str) {
    let output = load(server, arguments);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains(hint), "{arguments}: {told}");
}

#[test]
fn phones_register_and_call_over_every_transport() {
    for what in ["register", "register --rate 500", "call", "call --rate 50"] {
        for transport in ["udp", "tcp --sources 20", "sctp --sources 20"] {
            // A new server for each: contacts of an earlier load would ring as well.
            let server = Server::start(&["--listen", "sctp:127.0.0.1:0"]);
            let carrier = server.carrier();
            let to = match transport {
                "udp" => server.address("udp").to_string(),
                "tcp --sources 20" => server.address("tcp").to_string(),
                _ => "127.0.0.1:5060".to_owned(),
            };
            // Few at once, or less than there are phones: none has two outstanding REGISTERs that could be handled out
            // of order.
            let arguments = format!(
                "{what} --users 200 --outstanding 8 --encapsulation {carrier} --transport {transport}"
            );
            assert!(succeeded(&to, &arguments) > 0, "{arguments}");
        }
    }
}

#[test]
fn contacts_of_earlier_loads_are_removed_on_request() {
    let server = Server::start(&["--metrics", "127.0.0.1:0"]);
    let udp = server.address("udp").to_string();
    let bindings = || -> u32 {
        let page = server.metrics("/metrics");
        let found = page.lines().find_map(|line| line.strip_prefix("strandline_sip_bindings "));
        found.unwrap().parse().unwrap()
    };
    let load = "register --registered --users 40 --sources 4 --outstanding 4 --rate 40";
    succeeded(&udp, load);
    succeeded(&udp, load);
    assert!(bindings() >= 80, "a contact for each run: {}", bindings());
    for more in ["--remove-contacts", "--remove-contacts --processes 2"] {
        succeeded(&udp, &format!("{load} {more}"));
        assert_eq!(bindings(), 40, "{more}");
    }
}

#[test]
fn server_accepts_sctp_in_udp_and_ip() {
    for style in ["one-to-many", "one-to-one"] {
        // Both share one SCTP port, which is announced once.
        let listen = ["--listen", "sctp:127.0.0.1:0", "--listen", "sctp-ip:127.0.0.1:5060"];
        let server =
            Server::start(&[&listen[..], &["--sctp-style", style, "--metrics", "127.0.0.1:0"]].concat());
        let in_udp = server.carrier();
        let both = [(in_udp, "127.0.0.40", 0), (0, "127.0.0.41", 1000)];
        let loads: Vec<_> = both
            .map(|(carrier, local, first)| {
                let arguments = format!(
                    "register --transport sctp --sources 20 --users 100 --outstanding 8 --registered --local {local} \
                     --first {first} --encapsulation {carrier}"
                );
                std::thread::spawn(move || succeeded("127.0.0.1:5060", &arguments))
            })
            .into();
        for load in loads {
            assert!(load.join().unwrap() > 0);
        }
        // All of them are registered at one server.
        let registered = server.metrics("/metrics");
        let users = registered.lines().find_map(|line| line.strip_prefix("strandline_sip_users ")).unwrap();
        assert_eq!(users, "200");
    }
}

#[test]
fn new_associations_queue_in_both_socket_styles() {
    for style in ["one-to-many", "one-to-one"] {
        let listen = ["--listen", "sctp:127.0.0.1:0", "--sctp-style", style, "--metrics", "127.0.0.1:0"];
        // In so short a time, a busy host handles few messages, and makes the server refuse later ones.
        let server = found_at_last("a load with two messages of each phone", || {
            let server = Server::start(&listen);
            let arguments = format!(
                "register --transport sctp --sources 20 --users 20 --outstanding 8 --encapsulation {}",
                server.carrier()
            );
            let output = load("127.0.0.1:5060", &arguments);
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            let number = |name: &str| report[name].as_u64().unwrap();
            assert_eq!(number("succeeded") + number("refused"), number("begun"), "{report}");
            if number("succeeded") >= 40 && number("refused") == 0 {
                Ok(server)
            } else {
                Err(report.to_string())
            }
        });
        let page = server.metrics("/metrics");
        let count = |line: &str| {
            line.strip_prefix("strandline_sip_received_total{urgency=\"arrival\"} ")?.parse().ok()
        };
        let arrivals: u64 = page.lines().find_map(count).unwrap();
        // The first two messages of each association: a REGISTER, then one with credentials.
        assert!((20..=40).contains(&arrivals), "{style}: {arrivals}");
    }
}

/// Phones of a load come from the SCTP ports of phones of an earlier one, from another UDP port: its
/// associations have ended with it, and if it was killed, other SCTP ports serve.
#[test]
fn sctp_phones_come_again_after_earlier_loads() {
    let server = Server::start(&["--listen", "sctp:127.0.0.1:0", "--metrics", "127.0.0.1:0"]);
    let associations = || {
        let page = server.metrics("/live.json");
        let live: Value = serde_json::from_str(page.split_once("\r\n\r\n").unwrap().1).unwrap();
        live["associations"].as_u64().unwrap()
    };
    // So many at one address that some get ports of those before.
    let arguments = format!(
        "register --transport sctp --sources 1500 --users 1500 --outstanding 64 --local 127.0.0.43 --encapsulation {}",
        server.carrier()
    );
    for processes in [1, 2] {
        assert!(succeeded("127.0.0.1:5060", &format!("{arguments} --processes {processes}")) > 0);
        at_last("the load's associations have ended", || associations() == 0);
    }
    let mut killed = Command::new(PROGRAM)
        .args(["load", "sip", "--json", "--time", "600", "--server", "127.0.0.1:5060"])
        .args(arguments.split_whitespace())
        .spawn()
        .unwrap();
    at_last("a load has all its associations", || associations() == 1500);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(succeeded("127.0.0.1:5060", &arguments) > 0);
}

#[test]
fn connections_last_as_long_as_configured() {
    let lifetimes = [
        "register --lifetime transaction",
        "register --lifetime open --sources 50",
        "call --lifetime transaction --sources 20",
        "call --lifetime dialog --sources 20",
        "call --lifetime dialog --sources 20 --rate 50",
    ];
    for what in lifetimes {
        let server = Server::start(&[]);
        let to = server.address("tcp").to_string();
        assert!(succeeded(&to, &format!("{what} --users 20 --outstanding 4 --transport tcp")) > 0, "{what}");
    }
}

#[test]
fn a_server_of_its_own_is_watched() {
    for transport in ["udp", "tcp --sources 5", "sctp --sources 5 --sctp-style one-to-one"] {
        let arguments = format!(
            "load sip register --serve --durable --users 10 --outstanding 8 --time 1 --warm-up 0 --json --transport {transport}"
        );
        let output = Command::new(PROGRAM).args(arguments.split_whitespace()).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{transport}: {}", String::from_utf8_lossy(&output.stderr)));
        let server = &report["server"];
        let bytes = |name: &str| server[name].as_u64().unwrap();
        // A machine that is busy with something else makes the server refuse some.
        let number = |name: &str| report[name].as_u64().unwrap();
        assert!(number("succeeded") > 0, "{report}");
        assert_eq!(number("succeeded") + number("refused"), number("begun"), "{report}");
        assert!(server["cpu_s"].as_f64().unwrap() > 0.0, "{report}");
        assert!(bytes("virtual_end") >= bytes("resident_end") && bytes("resident_end") > 1 << 20, "{report}");
    }
}

#[test]
fn an_open_loop_offers_what_was_asked_for() {
    let server = Server::start(&[]);
    assert_eq!(succeeded(&server.address("udp").to_string(), "register --rate 1000 --users 300"), 300);
}

#[test]
fn what_is_wrong_is_told() {
    let server = Server::start(&[]);
    let (udp, tcp) = (server.address("udp").to_string(), server.address("tcp").to_string());
    fails(&udp, "call --domain elsewhere.org --users 10", "is elsewhere.org its domain?");
    fails(&udp, "register --rate 0", "--rate must be more than 0");
    fails(&tcp, "call --transport tcp --lifetime open", "calls use dialog, transaction or persistent");
    fails(&tcp, "register --transport tcp --lifetime dialog", "REGISTER creates no dialog");
    fails(&udp, "register --lifetime transaction", "requires --transport tcp");
    fails(&udp, "register --durable", "--serve");
    drop(server);
    fails(&tcp, "register --transport tcp", "connecting to 127.0.0.1");
    // Over UDP a missing server isn't reported: nothing succeeds.
    fails(&udp, "register --outstanding 1 --timeout 0.1", "");
}

#[test]
fn flows_are_kept_alive_by_crlf_and_stun() {
    let server = Server::start(&["--listen", "sctp:127.0.0.1:0"]);
    let carrier = server.carrier();
    for (transport, to, kept) in [
        ("udp", server.address("udp").to_string(), true),
        ("tcp", server.address("tcp").to_string(), true),
        ("sctp", "127.0.0.1:5060".to_owned(), false),
    ] {
        let arguments = format!(
            "register --rate 20 --users 40 --sources 20 --keep-alive 0.1 --encapsulation {carrier} --transport {transport}"
        );
        // A busy host may end a load before it answers the first ones.
        let report = found_at_last("keep-alives are answered", || {
            let report = crate::sip_generator::succeeded(&to, &arguments);
            let enough = report["keep_alives"].as_u64() >= Some(20) && report["keep_alives_answered"] != 0;
            if enough == kept { Ok(report) } else { Err(report.to_string()) }
        });
        let count = |name: &str| report[name].as_u64().unwrap();
        assert_eq!(count("keep_alives") >= 20, kept, "{arguments}: {report}");
        // The last ones may be outstanding at the end.
        assert!(count("keep_alives_answered") + 20 >= count("keep_alives"), "{arguments}: {report}");
        assert_eq!(
            (count("keep_alives_answered") > 0, count("flows_broken")),
            (kept, 0),
            "{arguments}: {report}"
        );
    }
    fails(
        &server.address("tcp").to_string(),
        "--transport tcp --lifetime transaction --keep-alive 1",
        "requires --lifetime persistent",
    );
}

#[test]
fn phones_register_over_encrypted_sctp() {
    let folder = std::env::temp_dir().join(format!("strandline-sip-encryption-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [server_key, phone_key] = ["server", "phones"].map(|name| folder.join(format!("{name}.pem")));
    let [server_print, phone_print] = [&server_key, &phone_key]
        .map(|file| strandline::encryption::create_identity(file, "sip").unwrap().to_string());
    for style in ["one-to-many", "one-to-one"] {
        let config = folder.join(format!("{style}.toml"));
        let text = format!(
            "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"sctp\"\naddress = \"127.0.0.1:0\"\n\
             style = \"{style}\"\nencrypted = true\nkey = \"{}\"\ntrust = [\"{phone_print}\"]\n",
            server_key.display()
        );
        std::fs::write(&config, text).unwrap();
        let server = Server::configured(&config);
        let arguments = format!(
            "register --users 100 --outstanding 8 --encapsulation {} --transport sctp --sources 5",
            server.carrier()
        );
        let own = format!("--sctp-key {} --sctp-trust", phone_key.display());
        assert!(succeeded("127.0.0.1:5060", &format!("{arguments} {own} {server_print}")) > 0);
        // A server with another key gets nothing.
        fails("127.0.0.1:5060", &format!("{arguments} {own} {phone_print}"), "SHA256:");
    }
    fails("127.0.0.1:5060", "register --sctp-encrypt", "requires --transport sctp");
    std::fs::remove_dir_all(&folder).unwrap();
}
