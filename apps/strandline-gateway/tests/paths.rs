//! Gateways with two links between them, in network namespaces. Needs root.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::common::{Gateway, Home, PROGRAM, at_last};
use crate::encryption::homes;

/// Bytes of the file that is fetched.
const BYTES: usize = 24 << 20;

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split_whitespace()).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// Two namespaces with two links: 10.91.1.0/24 and 10.91.2.0/24, the near side .1, the far side .2.
struct Network {
    near: String,
    far: String,
}

impl Network {
    fn new(name: &str) -> Self {
        let process = std::process::id();
        let network = Self { near: format!("{name}-near-{process}"), far: format!("{name}-far-{process}") };
        for namespace in [&network.near, &network.far] {
            ip(&format!("netns add {namespace}"));
            ip(&format!("-n {namespace} link set lo up"));
        }
        for link in 1..=2 {
            let Self { near, far } = &network;
            ip(&format!("-n {near} link add link{link} type veth peer name link{link} netns {far}"));
            for (namespace, host) in [(near, 1), (far, 2)] {
                ip(&format!("-n {namespace} addr add 10.91.{link}.{host}/24 dev link{link}"));
                ip(&format!("-n {namespace} link set link{link} up"));
            }
        }
        network
    }

    /// Drops what this side sends over a link; the link itself stays up.
    fn cut(&self, link: u8) {
        for namespace in [&self.near, &self.far] {
            // Packets of 10 bytes at least never fit.
            let mut tc = Command::new("tc");
            tc.args(["-n", namespace, "qdisc", "add", "dev", &format!("link{link}"), "root", "tbf"]);
            tc.args(["rate", "8bit", "burst", "10", "limit", "10"]);
            assert!(tc.status().unwrap().success());
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in [&self.near, &self.far] {
            let _ = Command::new("ip").args(["netns", "del", namespace]).status();
        }
    }
}

/// A program in a namespace, killed at the end.
struct Program(Child);

impl Program {
    fn start(namespace: &str, directory: &Path, command: &str) -> Self {
        let mut program = Command::new("ip");
        program.args(["netns", "exec", namespace]).args(command.split_whitespace()).current_dir(directory);
        Self(program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a gateway in a namespace, with the key of its home if it has one.
fn gateway(namespace: &str, home: Option<&Home>, arguments: &str) -> Gateway {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, PROGRAM]).args(arguments.split_whitespace());
    match home {
        Some(home) => command.env("XDG_CONFIG_HOME", &home.path),
        None => command.arg("--insecure").env("XDG_CONFIG_HOME", "/nonexistent"),
    };
    Gateway::spawn(command)
}

/// Creates a folder with a file whose bytes tell their places.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut file = std::fs::File::create(folder.join("file")).unwrap();
    let bytes: Vec<u8> = (0..BYTES as u32 / 4).flat_map(u32::to_le_bytes).collect();
    file.write_all(&bytes).unwrap();
    folder
}

/// Homes of gateways that trust each other at both addresses of the far one.
fn keys(name: &str) -> Option<(Home, Home)> {
    let (far, near) = homes(name);
    for link in 1..=2 {
        near.trust(&format!("10.91.{link}.2"), far.key);
    }
    Some((far, near))
}

/// Fetches a file while the first link fails, and compares it.
fn fetch_while_a_link_fails(name: &str, keys: Option<(Home, Home)>, options: &str) {
    let (far_home, near_home) = keys.unzip();
    let network = Network::new(name);
    let folder = folder(name);
    let _server = Program::start(&network.far, &folder, "python3 -m http.server 8000 --bind 127.0.0.1");
    let ready = "curl -s -o /dev/null --retry 30 --retry-connrefused --retry-delay 1 http://127.0.0.1:8000/";
    assert!(Program::start(&network.far, &folder, ready).0.wait().unwrap().success());
    let far = format!("--allow 127.0.0.1:8000 --listen 10.91.1.2:9899,10.91.2.2:9899 {options}");
    let far = gateway(&network.far, far_home.as_ref(), &far);
    assert_eq!(far.announced["listen_addresses"], json!(["10.91.1.2:9899", "10.91.2.2:9899"]));
    let near =
        "--peer far=10.91.1.2:9899,10.91.2.2:9899 --forward 8001=127.0.0.1:8000 --admin 127.0.0.1:9898";
    let near = gateway(&network.near, near_home.as_ref(), &format!("{near} {options}"));
    let fetched = folder.join("fetched");
    let url = "http://127.0.0.1:8001/file";
    // 12 MB/s: it takes 2 s, or longer on a slow host.
    let curl = format!("curl -sS --max-time 600 --limit-rate 12M -o {} {url}", fetched.display());
    let mut curl = Program::start(&network.near, &folder, &curl);
    at_last("a part of the file", || {
        std::fs::metadata(&fetched).is_ok_and(|file| file.len() > BYTES as u64 / 6)
    });
    network.cut(1);
    let status = curl.0.wait().unwrap();
    assert!(status.success(), "{status}\nnear: {}\nfar: {}", near.log(), far.log());
    assert!(std::fs::read(&fetched).unwrap() == std::fs::read(folder.join("file")).unwrap());
    assert!(!near.log().contains("lost"), "{}", near.log());
    let told = |command: &str| {
        let mut ip = Command::new("ip");
        let output = ip.args(["netns", "exec", &network.near]).args(command.split_whitespace()).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    at_last("the failed path is counted", || {
        told("curl -s http://127.0.0.1:9898/metrics").contains("strandline_gateway_paths_failed 1\n")
    });
    let status = told(&format!("{PROGRAM} status --once"));
    assert!(status.contains("\npath to 10.91.1.2:9899  "), "{status}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn connections_survive_a_failed_link() {
    fetch_while_a_link_fails("gw-reserve", None, "");
}

#[test]
fn connections_survive_it_with_both_in_use() {
    fetch_while_a_link_fails("gw-both", None, "--multipath independent");
}

#[test]
fn encrypted_connections_survive_a_failed_link() {
    fetch_while_a_link_fails("gw-reserve-keys", keys("gw-reserve-keys"), "");
}

/// Records of both links arrive in another order than they were sent in.
#[test]
fn encrypted_connections_survive_it_with_both_in_use() {
    fetch_while_a_link_fails("gw-both-keys", keys("gw-both-keys"), "--multipath independent");
}
