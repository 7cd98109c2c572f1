//! Real phones and tools beside `strandline sip` with its default settings: baresip and sipsak register, and
//! fail2ban finds in the log whom it documents. In a network namespace, since baresip takes no loopback
//! address for its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::sip_server::{PROGRAM, Server};
use crate::waiting::at_last;

const ADDRESS: &str = "10.61.0.1";
const DOCUMENT: &str = include_str!("../../../docs/sip-operation.md");

/// A network namespace with an address, and a folder; both go with this value.
struct World {
    name: String,
    folder: PathBuf,
}

fn run(program: &str, arguments: &str) -> Output {
    Command::new(program).args(arguments.split(' ')).output().unwrap()
}

impl World {
    fn new(name: &str) -> Self {
        let name = format!("strandline-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        std::fs::create_dir_all(&folder).unwrap();
        let world = Self { name, folder };
        let name = &world.name;
        for step in [
            format!("netns add {name}"),
            format!("-n {name} link set lo up"),
            format!("-n {name} link add phone type veth peer name wall"),
            format!("-n {name} addr add {ADDRESS}/24 dev phone"),
            format!("-n {name} link set phone up"),
            format!("-n {name} link set wall up"),
        ] {
            let done = run("ip", &step);
            assert!(done.status.success(), "ip {step}: {done:?}");
        }
        world
    }

    /// This program, run inside.
    fn inside(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program).current_dir(&self.folder);
        command
    }

    /// A server with a user and its default settings for the rest, which logs into the file `log`.
    fn serve(&self) -> Server {
        std::fs::write(self.folder.join("users"), "bob:password:secret-of-bob\n").unwrap();
        let config = format!(
            "domains = [\"example.com\"]\n[[listen]]\nprotocol = \"udp\"\naddress = \"{ADDRESS}:5060\"\n\
             [auth]\nrealm = \"example.com\"\nusers = \"users\"\n[metrics]\naddress = \"127.0.0.1:0\"\n"
        );
        std::fs::write(self.folder.join("sip.toml"), config).unwrap();
        let mut server = self.inside(PROGRAM);
        server.args(["sip", "--json", "--config", "sip.toml"]).stderr(File::create(self.log()).unwrap());
        Server::announced(&mut server)
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// sipsak registers with this password.
    fn sipsak(&self, arguments: &[&str]) -> Output {
        let aim = format!("sip:bob@{ADDRESS}");
        self.inside("sipsak")
            .args(["-U", "-i", "-x", "60", "-s", &aim, "-C", &aim])
            .args(arguments)
            .output()
            .unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = run("ip", &format!("netns del {}", self.name));
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Its user name is `bob@` in credentials, unless it is told another.
#[test]
fn sipsak_registers() {
    let world = World::new("sipsak");
    let _server = world.serve();
    for name in [&["-a", "secret-of-bob"][..], &["-a", "secret-of-bob", "-u", "bob"]] {
        let done = world.sipsak(name);
        assert!(done.status.success(), "{name:?}: {done:?}");
    }
    assert!(!world.sipsak(&["-a", "wrong", "-u", "bob"]).status.success());
}

#[test]
fn baresip_registers() {
    let world = World::new("baresip");
    let _server = world.serve();
    let modules = "module_path /usr/lib/baresip/modules\nmodule g711.so\nmodule_tmp uuid.so\n\
                   module_tmp account.so\nmodule_app menu.so\n";
    std::fs::write(world.folder.join("config"), modules).unwrap();
    let account = format!("<sip:bob@{ADDRESS}>;auth_pass=secret-of-bob;regint=60\n");
    std::fs::write(world.folder.join("accounts"), account).unwrap();
    std::fs::write(world.folder.join("contacts"), "").unwrap();
    let told = world.folder.join("told");
    let mut phone = world.inside("baresip");
    phone.args(["-f", "."]).stdin(Stdio::null());
    phone.stdout(File::create(&told).unwrap()).stderr(File::create(world.folder.join("errors")).unwrap());
    let mut phone = phone.spawn().unwrap();
    let read = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    at_last("baresip is answered", || {
        let text = format!("{}{}", read(&told), read(&world.folder.join("errors")));
        assert!(!text.contains("Function not implemented"), "it can't read the challenges: {text}");
        text.contains("200 OK")
    });
    phone.kill().unwrap();
    phone.wait().unwrap();
}

/// The filter of the document.
fn filter() -> String {
    let lines = DOCUMENT.lines().skip_while(|line| line.trim() != "[INCLUDES]");
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.map(|line| format!("{}\n", line.trim())).collect()
}

#[test]
fn fail2ban_finds_who_guesses() {
    let world = World::new("fail2ban");
    let mut server = world.serve();
    for _ in 0..3 {
        assert!(!world.sipsak(&["-a", "wrong", "-u", "bob"]).status.success());
    }
    assert!(world.sipsak(&["-a", "secret-of-bob", "-u", "bob"]).status.success());
    server.terminate();
    // What a sender has others log is no line of ours.
    let log = std::fs::read_to_string(world.log()).unwrap();
    let line = log.lines().find(|line| line.contains("wrong password")).unwrap();
    let (time, rest) = line.split_once(' ').unwrap();
    let ours = line.replace(ADDRESS, "192.0.2.1");
    let forged = format!("{time}  WARN strandline_sip: told={}", rest.trim().replace(ADDRESS, "192.0.2.2"));
    // As fail2ban has it from systemd's journal.
    let journal = format!("{time} host strandline[12]: {}", line.replace(ADDRESS, "2001:db8::1"));
    std::fs::write(world.log(), format!("{log}{ours}\n{forged}\n{journal}\n")).unwrap();
    std::fs::create_dir_all(world.folder.join("filter.d")).unwrap();
    std::fs::copy("/etc/fail2ban/filter.d/common.conf", world.folder.join("filter.d/common.conf")).unwrap();
    std::fs::write(world.folder.join("filter.d/strandline.conf"), filter()).unwrap();
    let mut search = Command::new("fail2ban-regex");
    search.args(["-o", "ip"]).arg(world.log()).arg(world.folder.join("filter.d/strandline.conf"));
    let found = search.output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    let found: Vec<&str> = found.lines().collect();
    assert_eq!(found, [ADDRESS, ADDRESS, ADDRESS, "192.0.2.1", "2001:db8::1"], "{log}");
}
