//! `strandline perf` with encryption: what it serves, and what it says if there is none.

use std::process::Command;

use crate::perf_server::{Server, text};

/// Runs a client that fails, and returns what it says.
fn failure(mut client: Command) -> String {
    let output = client.output().unwrap();
    assert!(!output.status.success(), "{}", text(&output.stdout));
    text(&output.stderr)
}

/// Errors say what is wrong with encryption, instead of asking for a firewall, and nothing is served without it.
#[test]
fn failures_of_encryption_are_explained() {
    let folder = std::env::temp_dir().join(format!("strandline-perf-keys-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let key = |name: &str| {
        let path = folder.join(name);
        let fingerprint = strandline::encryption::create_identity(&path, name).unwrap().to_string();
        (path.display().to_string(), fingerprint)
    };
    let ((server_key, server_print), (client_key, client_print)) = (key("server"), key("client"));
    let server = Server::start(&["--key", &server_key, "--trust", &client_print]);
    let plain = Server::start(&[]);
    let encrypted = |server: &Server, trust: &str| server.client(&["--key", &client_key, "--trust", trust]);
    let list = folder.join("known").display().to_string();
    std::fs::write(&list, format!("bad line\n127.0.0.1 {client_print}\n")).unwrap();

    let unknown = failure(encrypted(&server, &client_print));
    assert!(unknown.contains(&format!("strandline trust add 127.0.0.1 {server_print}")), "{unknown}");
    let changed = failure(encrypted(&server, &list));
    assert!(changed.contains("HAS CHANGED") && changed.contains(&client_print), "{changed}");
    assert!(changed.contains("known: line 1"), "a bad line is named: {changed}");
    let refused = failure(server.client(&["--key", &server_key, "--trust", &server_print]));
    assert!(refused.contains(&format!("trust add NAME {server_print}")), "{refused}");
    let to_plain = failure(encrypted(&plain, &server_print));
    assert!(to_plain.contains("does not encrypt"), "{to_plain}");
    let from_plain = failure(server.client(&[]));
    assert!(from_plain.contains("encryption required"), "{from_plain}");
    for text in [unknown, changed, refused, to_plain, from_plain] {
        assert!(!text.contains("firewall"), "{text}");
    }
    let tcp = failure(server.client(&["--transport", "tcp"]));
    assert!(tcp.contains("refused"), "nothing but SCTP: {tcp}");
    assert!(encrypted(&server, &server_print).args(["-n", "1M"]).output().unwrap().status.success());
    std::fs::remove_dir_all(folder).unwrap();
}
