//! Tests of `strandline load sip` with scenario files, and with several processes.

use serde_json::Value;

use crate::sip_generator::load;
use crate::sip_server::Server;
use crate::waiting::found_at_last;

const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../strandline-load/scenarios");

/// Asserts that all requests succeeded, and that there were some.
fn succeeded(server: &str, arguments: &str) -> Value {
    let report = crate::sip_generator::succeeded(server, arguments);
    assert!(report["succeeded"].as_u64().unwrap() > 0, "{arguments}: {report}");
    report
}

#[test]
fn shipped_scenarios_run_over_every_transport() {
    for (scenario, name) in [
        ("options", "OPTIONS"),
        ("message", "MESSAGE"),
        ("subscribe", "SUBSCRIBE and NOTIFY"),
        ("reinvite", "call with re-INVITE"),
    ] {
        for (transport, rate) in [("udp", ""), ("tcp", "--rate 50"), ("sctp", "")] {
            // A new server for each: contacts of an earlier load would receive requests as well.
            let server = Server::start(&["--listen", "sctp:127.0.0.1:0"]);
            let to = match transport {
                "udp" => server.address("udp").to_string(),
                "tcp" => server.address("tcp").to_string(),
                _ => "127.0.0.1:5060".to_owned(),
            };
            let report = succeeded(
                &to,
                &format!(
                    "--scenario {SCENARIOS}/{scenario}.toml --transport {transport} {rate} --users 20 --sources 6 \
                     --outstanding 4 --encapsulation {}",
                    server.carrier()
                ),
            );
            assert_eq!(report["scenario"], name);
            assert!(report["response"]["count"].as_u64() == report["succeeded"].as_u64(), "{report}");
            assert!(report["whole"]["p99_ms"].as_f64().unwrap() > 0.0, "{report}");
            assert!(report["within_each_second"].as_f64().unwrap() > 0.0, "{report}");
            assert!(report["response_within"]["count"].as_u64().unwrap() > 0, "{report}");
        }
    }
}

#[test]
fn several_processes_do_together_what_one_does() {
    let reinvite = format!("--scenario {SCENARIOS}/reinvite.toml --rate 40");
    for what in ["register --rate 1000", "call --rate 60", "call", reinvite.as_str()] {
        let server = Server::start(&[]);
        // The report covers all three processes: that of one would be a third of it. On a busy host much ends only
        // after the time of the load.
        let covers_all = |report: &Value| {
            let number = |value: &Value| value.as_f64().unwrap();
            let within = number(&report["within_each_second"]) * number(&report["seconds"]);
            let half = number(&report["succeeded"]) * 0.5;
            within > half && report["response_within"]["count"].as_f64() > Some(half)
        };
        let report = found_at_last("a report of all three processes", || {
            let report = succeeded(
                &server.address("udp").to_string(),
                &format!("{what} --processes 3 --users 300 --sources 6 --outstanding 6"),
            );
            if covers_all(&report) { Ok(report) } else { Err(report.to_string()) }
        });
        assert_eq!((&report["processes"], &report["users"]), (&3.into(), &300.into()));
        if let Some((_, rate)) = what.split_once("--rate ") {
            let offered = (rate.parse::<f64>().unwrap() * 0.3).round() as u64;
            let begun = report["begun"].as_u64().unwrap();
            assert!(begun.abs_diff(offered) <= 3, "{what}: {report}");
        }
    }
}

#[test]
fn phones_prove_who_they_are_in_scenarios_too() {
    let folder = std::env::temp_dir().join(format!("strandline-sip-scenarios-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let users: String = (0..10).map(|user| format!("u{user}:password:secret\n")).collect();
    std::fs::write(folder.join("users"), users).unwrap();
    let config = format!("[auth]\nrealm = \"example.com\"\nusers = \"{}\"\n", folder.join("users").display());
    std::fs::write(folder.join("sip.toml"), config).unwrap();
    let server = Server::start(&["--config", folder.join("sip.toml").to_str().unwrap()]);
    let arguments =
        format!("--scenario {SCENARIOS}/message.toml --users 10 --outstanding 2 --password secret");
    let report = succeeded(&server.address("udp").to_string(), &arguments);
    assert!(report["challenged"].as_u64().unwrap() > 0, "{report}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_is_wrong_with_a_scenario_is_told() {
    let file = std::env::temp_dir().join(format!("strandline-sip-scenario-{}.toml", std::process::id()));
    std::fs::write(&file, "name = \"x\"\n[[step]]\nsend = \"OPTIONS\"\n[[step]]\nexpect = 99\n").unwrap();
    let path = file.to_str().unwrap();
    for (arguments, hint) in [
        (format!("--scenario {path}"), "step 2: expect must be 101 to 699, not 99"),
        ("--scenario /nowhere.toml".to_owned(), "reading /nowhere.toml"),
        (format!("call --scenario {path}"), "cannot be used with"),
        (format!("--scenario {path} --transport tcp --lifetime transaction"), "--lifetime persistent"),
        ("register --processes 0".to_owned(), "--processes must be 1 to 64, not 0"),
        ("register --processes 4 --users 6".to_owned(), "--users must be at least 2"),
    ] {
        let output = load("127.0.0.1:9", &arguments);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && told.contains(hint), "{arguments}: {told}");
    }
    std::fs::remove_file(&file).unwrap();
}
