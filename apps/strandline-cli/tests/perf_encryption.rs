//! `strandline perf` with encryption: what it serves, and what it says if there is none.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");

/// A server on free ports, which ends when this value is dropped.
struct Server {
    child: Child,
    port: String,
    encapsulation: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args("perf server --bind 127.0.0.1 -p 0 --encapsulation-port 0 --quiet".split(' '));
        let child = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        // "strandline perf serves SCTP port 4242 over UDP 127.0.0.1:9899 encrypted"
        let mut line = String::new();
        let mut messages = BufReader::new(child.stderr.take().unwrap());
        messages.read_line(&mut line).unwrap();
        // The server's further messages must be read, or it would block.
        std::thread::spawn(move || std::io::copy(&mut messages, &mut std::io::sink()));
        let after = |before: &str| {
            let rest = line.split(before).nth(1).unwrap();
            rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().to_owned()
        };
        Self { port: after("SCTP port "), encapsulation: after("UDP 127.0.0.1:"), child }
    }

    fn client(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(["perf", "client", "127.0.0.1", "-p", &self.port])
            .args(["--encapsulation-port", &self.encapsulation])
            .args(arguments);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

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
