//! The unit under systemd, as the first process of its own namespaces: a hot restart and a stop, under an
//! open connection. `make interop` runs this as root.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::common::{Home, PROGRAM, at_last, children};

/// Both sides in one process: a forward to an echo server.
const CONFIG: &str = "listen = \"127.0.0.1:9899\"\n[[peer]]\nname = \"own\"\naddresses = [\"127.0.0.1:9899\"]\n\
                      [[forward]]\nlisten = \"8001\"\nto = \"127.0.0.1:8000\"\n\
                      [[access]]\nallow = [\"127.0.0.1:8000\"]\n";

/// A machine with systemd and the unit. It ends when this value is dropped.
struct Machine {
    boot: Child,
    /// Its first process.
    first: u32,
    _home: Home,
}

impl Machine {
    fn start() -> Self {
        let home = Home::new("systemd");
        let etc = home.path.join("etc");
        fs::create_dir_all(&etc).unwrap();
        fs::write(etc.join("gateway.toml"), CONFIG).unwrap();
        // The program of the tests has no word for the gateway.
        let unit = include_str!("../../../docs/strandline-gateway.service");
        let unit = home.write("unit", &unit.replace("/strandline gateway ", "/strandline "));
        let boot = Command::new("sh")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../strandline-cli/tests/systemd/boot"))
            .args([&PathBuf::from(unit), &PathBuf::from(PROGRAM), &etc])
            .env("SERVICE", "strandline-gateway")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut machine = Self { boot, first: 0, _home: home };
        at_last("systemd is there", || machine.find_first());
        at_last("the unit serves", || machine.asked("ActiveState") == "active");
        machine
    }

    /// Finds the child of the process that created the namespaces.
    fn find_first(&mut self) -> bool {
        let is_systemd = |first: &u32| {
            fs::read_to_string(format!("/proc/{first}/comm")).is_ok_and(|name| name.trim() == "systemd")
        };
        self.first = children(self.boot.id()).into_iter().find(is_systemd).unwrap_or_default();
        self.first != 0
    }

    /// Returns a command in the namespaces of the machine.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.first.to_string()]);
        command.args(["--net", "--mount", "--pid", "--cgroup", "--uts", "--ipc"]);
        command.args([format!("--root=/proc/{}/root", self.first), format!("--wd=/proc/{}/cwd", self.first)]);
        command.args(words);
        command
    }

    fn systemctl(&self, words: &[&str]) -> String {
        let output = self.command(&[&["systemctl"][..], words].concat()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Returns a property of the unit.
    fn asked(&self, property: &str) -> String {
        self.systemctl(&["show", "--value", "--property", property, "strandline-gateway"])
    }

    /// Serves in the machine by sending back what comes.
    fn serve_echo(&self) {
        let namespace = fs::File::open(format!("/proc/{}/ns/net", self.first)).unwrap();
        let (ready, is_ready) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            let listener = TcpListener::bind("127.0.0.1:8000").unwrap();
            ready.send(()).unwrap();
            for tcp in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || std::io::copy(&mut &tcp, &mut &tcp));
            }
        });
        is_ready.recv().unwrap();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // All processes in the machine end with its first process, which ends with this one.
        let _ = self.boot.kill();
        let _ = self.boot.wait();
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let group = mounts.lines().find_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let place = fields.next()?;
            (fields.next()? == "cgroup2").then(|| PathBuf::from(place))
        });
        if let Some(group) = group {
            let group = group.join(format!("strandline-test-{}", self.boot.id()));
            at_last("the control groups are gone", || remove_groups(&group));
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

#[test]
fn the_unit_restarts_hot_and_stops_in_order() {
    let machine = Machine::start();
    machine.serve_echo();
    // It says each line to the server, and prints what comes back.
    let script = "exec 3<>/dev/tcp/127.0.0.1/8001; while read -r line; do echo \"$line\" >&3; read -r -t 60 back <&3; echo \"$back\"; done";
    let mut command = machine.command(&["bash", "-c", script]);
    let mut client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = client.stdin.take().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    let mut pass = |word: &str| {
        writeln!(input, "{word}").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), word);
    };
    pass("before");
    let old = machine.asked("MainPID");
    machine.systemctl(&["kill", "--signal=USR2", "--kill-whom=main", "strandline-gateway"]);
    at_last("the new process is the main one", || {
        ![old.clone(), "0".to_owned()].contains(&machine.asked("MainPID"))
    });
    assert_eq!(machine.asked("ActiveState"), "active");
    pass("in the old process");
    let mut stopping = machine.command(&["systemctl", "stop", "strandline-gateway"]).spawn().unwrap();
    at_last("it stops", || machine.asked("ActiveState") == "deactivating");
    pass("while both end");
    assert!(stopping.try_wait().unwrap().is_none());
    drop(input);
    client.wait().unwrap();
    assert!(stopping.wait().unwrap().success());
    assert_eq!(
        (machine.asked("ActiveState"), machine.asked("Result")),
        ("inactive".into(), "success".into())
    );
}
