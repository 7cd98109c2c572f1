//! Tests of the systemd unit, started by systemd as the first process of its own namespaces. `make interop`
//! runs this as root: it depends on more of the machine than other tests do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;

use crate::sip_generator::unrefused;
use crate::waiting::{at_last, is_so_at_last};

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");
const UNIT: &str = include_str!("../../../docs/strandline-sip.service");
const CREDENTIALS: &str = "/run/credentials/strandline-sip.service";

/// A machine with systemd and the unit, which is removed when this value is dropped.
struct Machine {
    boot: Child,
    folder: PathBuf,
    /// Its first process.
    first: u32,
}

/// Returns the unit with these commented-out lines enabled.
fn unit(wanted: &[&str]) -> String {
    wanted.iter().fold(UNIT.to_owned(), |unit, line| {
        let commented = format!("\n# {line}");
        assert!(unit.contains(&commented), "{line}");
        unit.replace(&commented, &format!("\n{line}"))
    })
}

impl Machine {
    fn start(name: &str, wanted: &[&str], listen: &[(&str, &str)], more: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("strandline-systemd-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let etc = folder.join("etc");
        fs::create_dir_all(&etc).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        fs::write(etc.join("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(etc.join("sip.key"), key.serialize_pem()).unwrap();
        fs::write(etc.join("admin.token"), "0123456789abcdef0123456789abcdef\n").unwrap();
        let mut text = "domains = [\"example.com\"]\n".to_owned();
        for (protocol, address) in listen {
            text += &format!("[[listen]]\nprotocol = {protocol}\naddress = \"{address}\"\n");
        }
        text += &format!(
            "[tls]\ncertificate = \"/etc/strandline/cert.pem\"\nkey = \"{CREDENTIALS}/sip.key\"\n\
             [store]\npath = \"/var/lib/strandline/sip.db\"\n\
             [admin]\naddress = \"127.0.0.1:9091\"\ntoken = \"{CREDENTIALS}/admin.token\"\n{more}"
        );
        fs::write(etc.join("sip.toml"), text).unwrap();
        let file = folder.join("unit");
        fs::write(&file, unit(wanted)).unwrap();
        let boot = Command::new("sh")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/systemd/boot"))
            .args([&file, &PathBuf::from(PROGRAM), &etc])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut machine = Self { boot, folder, first: 0 };
        at_last("systemd is there", || machine.find_first());
        at_last("the unit serves", || {
            machine.systemctl("is-active").trim() == "active" && machine.said("SIP server")
        });
        machine
    }

    /// Finds the child of the process that created the namespaces.
    fn find_first(&mut self) -> bool {
        let pid = self.boot.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let first = children.split_whitespace().next().and_then(|first| first.parse().ok());
        let is_systemd = |first: &u32| {
            fs::read_to_string(format!("/proc/{first}/comm")).is_ok_and(|name| name.trim() == "systemd")
        };
        self.first = first.filter(is_systemd).unwrap_or_default();
        self.first != 0
    }

    /// Runs a program in the machine's network namespace; with `whole`, also in its mount and process
    /// namespaces.
    fn run(&self, whole: bool, words: &[&str]) -> Output {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.first.to_string(), "--net"]);
        if whole {
            command.args(["--mount", "--pid", "--cgroup", "--uts", "--ipc"]);
            // Its root directory may differ from the root of its mounts.
            command.args([
                format!("--root=/proc/{}/root", self.first),
                format!("--wd=/proc/{}/cwd", self.first),
            ]);
        }
        command.args(words).output().unwrap()
    }

    fn systemctl(&self, verb: &str) -> String {
        let output = self.run(true, &["systemctl", verb, "strandline-sip"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns whether the unit has logged this.
    fn said(&self, what: &str) -> bool {
        String::from_utf8_lossy(&self.run(true, &["cat", "/run/said"]).stdout).contains(what)
    }

    /// Registers phones, all of which must succeed.
    fn register(&self, transport: &str) {
        let cert = self.folder.join("etc/cert.pem");
        let common = [
            "load",
            "sip",
            "register",
            "--users",
            "5",
            "--rate",
            "50",
            "--time",
            "0.3",
            "--warm-up",
            "0",
            "--json",
        ];
        let transport = transport.replace("CERT", cert.to_str().unwrap());
        let words: Vec<&str> = transport.split(' ').collect();
        let report = unrefused(|| self.run(false, &[&[PROGRAM][..], &common, &words].concat()));
        assert!(report["begun"].as_u64() > Some(5), "{transport}: {report}");
    }

    fn status(&self) -> Value {
        let token = self.folder.join("etc/admin.token");
        let words = [PROGRAM, "sip", "admin", "--json", "--token", token.to_str().unwrap(), "status"];
        serde_json::from_slice(&self.run(false, &words).stdout).unwrap()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // All processes in the machine end with its first process, which ends with this one.
        let _ = self.boot.kill();
        let _ = self.boot.wait();
        let _ = fs::remove_dir_all(&self.folder);
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let group = mounts.lines().find_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let place = fields.next()?;
            (fields.next()? == "cgroup2").then(|| PathBuf::from(place))
        });
        if let Some(group) = group {
            let group = group.join(format!("strandline-test-{}", self.boot.id()));
            // Killed processes leave the group within a moment.
            is_so_at_last(|| remove_groups(&group));
        }
    }
}

/// Removes the nested control groups first. Returns whether the group is gone.
fn remove_groups(group: &Path) -> bool {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove_groups(&entry.path());
        }
    }
    fs::remove_dir(group).is_ok() || !group.exists()
}

const SECRETS: [&str; 2] = [
    "LoadCredential=sip.key:/etc/strandline/sip.key",
    "LoadCredential=admin.token:/etc/strandline/admin.token",
];

#[test]
fn unit_serves_all_transports_reloads_and_stops() {
    let listen = [
        ("\"udp\"", "127.0.0.1:5060"),
        ("\"tcp\"", "127.0.0.1:5060"),
        ("\"tls\"", "127.0.0.1:5061"),
        ("\"sctp\"", "127.0.0.1:9899"),
        ("\"ws\"", "127.0.0.1:8080"),
    ];
    let machine = Machine::start("all", &SECRETS, &listen, "[server]\nprocesses = 2\n");
    machine.register("--transport udp");
    machine.register("--transport tcp");
    machine.register("--transport tls --server 127.0.0.1:5061 --ca CERT");
    machine.register("--transport sctp --encapsulation 9899");
    let upgrade = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: sip\r\n\r\n";
    let script = "exec 3<>/dev/tcp/127.0.0.1/8080; printf '%s' \"$0\" >&3; head -n 1 <&3";
    let answer = machine.run(false, &["bash", "-c", script, upgrade]);
    assert!(answer.stdout.starts_with(b"HTTP/1.1 101 "), "{answer:?}");
    assert_eq!(machine.status()["users"], 5);
    // The store is where the unit puts it, and only its user can read it.
    let store = machine.run(true, &["stat", "--format=%U %a", "/var/lib/private/strandline/sip.db"]);
    assert_eq!(String::from_utf8_lossy(&store.stdout), "strandline-sip 600\n");
    machine.systemctl("reload");
    at_last("it is read again", || machine.status()["reloads"]["count"] == 1);
    machine.systemctl("stop");
    assert_eq!(machine.systemctl("is-active").trim(), "inactive", "and not failed");
}

#[test]
fn capabilities_allow_low_ports_and_raw_sctp() {
    let wanted =
        [&SECRETS[..], &["AmbientCapabilities=CAP_NET_BIND_SERVICE", "AmbientCapabilities=CAP_NET_RAW"]]
            .concat();
    let listen = [("\"udp\"", "127.0.0.1:506"), ("\"sctp\"\ncarrier = \"ip\"", "127.0.0.1:5060")];
    let machine = Machine::start("raw", &wanted, &listen, "");
    machine.register("--transport udp --server 127.0.0.1:506");
    machine.register("--transport sctp --encapsulation 0");
    assert_eq!(machine.status()["users"], 5);
}
