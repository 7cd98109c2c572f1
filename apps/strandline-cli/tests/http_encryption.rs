//! `strandline http` over encrypted SCTP: server, client, load and both proxies.

use std::path::PathBuf;
use std::process::{Child, Command, Output};

use serde_json::Value;

use crate::announced::announced;

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");

/// A folder with a site and the keys of both sides; removed in the end.
struct Folder {
    path: PathBuf,
    server: String,
    client: String,
}

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("strandline-http-encryption-{}", std::process::id()));
        std::fs::create_dir_all(path.join("site")).unwrap();
        std::fs::write(path.join("site/file"), "encrypted on the way").unwrap();
        let key = |name: &str| {
            let file = path.join(format!("{name}.pem"));
            strandline::encryption::create_identity(&file, name).unwrap().to_string()
        };
        let (server, client) = (key("server"), key("client"));
        Self { path, server, client }
    }

    fn file(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A server that ends when this value is dropped.
struct Running(Child, Value);

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.arg("http").args(arguments).args(["--json", "--listen", "127.0.0.1:0"]);
        let (child, listening) = announced(&mut command);
        Self(child, listening)
    }

    fn udp_port(&self) -> String {
        self.1["encapsulation"].as_str().unwrap().rsplit(':').next().unwrap().to_owned()
    }

    fn url(&self) -> String {
        format!("http+sctp://127.0.0.1:{}/file", self.1["sctp"])
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const LOCAL: [&str; 4] = ["--encapsulation", "127.0.0.1:0", "--sctp", "0"];

fn run(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn http_over_encrypted_sctp() {
    let folder = Folder::new();
    let (site, server_key, client_key) =
        (folder.file("site"), folder.file("server.pem"), folder.file("client.pem"));
    let own = ["--sctp-key", &server_key, "--sctp-trust", &folder.client];
    let server = Running::start(&[&["serve", &site], &LOCAL[..], &own].concat());
    assert_eq!(server.1["sctp_key"], folder.server.as_str());
    let (url, port) = (server.url(), server.udp_port());
    let client = ["--sctp-key", &client_key, "--sctp-trust", &folder.server];

    let get = ["http", "get", "--quiet", "--encapsulation-port", &port];
    let output = run(&[&get[..], &client, &[&url]].concat());
    assert_eq!(text(&output), "encrypted on the way");
    // Without encryption there is no answer, and with it nothing goes in plain.
    assert!(!run(&[&get[..], &["--connect-timeout", "1", &url]].concat()).status.success());
    let plain = format!("http://{}/file", server.1["tcp"].as_str().unwrap());
    let output = run(&[&get[..], &client, &[&plain]].concat());
    assert!(text(&output).contains("http:// is not encrypted"), "{}", text(&output));
    assert_eq!(output.status.code(), Some(3));
    // SCTP is not announced to clients, which would not know that it is encrypted.
    let head = Command::new("curl").args(["-sI", &plain]).output().unwrap();
    assert!(!text(&head).to_lowercase().contains("alt-svc"), "{}", text(&head));

    let load = ["load", "http", "--quiet", "--json", "--concurrency", "4", "--requests", "40"];
    let output = run(&[&load[..], &["--encapsulation-port", &port], &client, &[&url]].concat());
    let report: Value = serde_json::from_str(text(&output).trim()).unwrap();
    assert_eq!(report["status"]["2xx"], 40, "{report}");

    // A reverse proxy in plain before the encrypted server, and a forward proxy that reaches it encrypted.
    let upstream = ["--upstream-key", &client_key, "--upstream-trust", &folder.server];
    let to = ["--to", url.trim_end_matches("/file"), "--encapsulation-port", &port];
    let reverse = Running::start(&[&["proxy", "reverse"], &LOCAL[..], &to, &upstream].concat());
    let through = format!("http://{}/file", reverse.1["tcp"].as_str().unwrap());
    assert_eq!(text(&Command::new("curl").args(["-s", &through]).output().unwrap()), "encrypted on the way");
}

#[test]
fn raw_sctp_is_not_encrypted() {
    let folder = std::env::temp_dir().join(format!("strandline-http-raw-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let key = folder.join("key.pem");
    strandline::encryption::create_identity(&key, "raw").unwrap();
    let site = folder.display().to_string();
    let output = run(&[
        "http",
        "serve",
        &site,
        "--raw",
        "127.0.0.1",
        "--sctp-key",
        key.to_str().unwrap(),
        "--sctp-trust",
        "anyone",
    ]);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(text(&output).contains("--raw can't be encrypted"), "{}", text(&output));
}
