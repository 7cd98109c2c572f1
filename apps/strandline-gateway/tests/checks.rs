//! `--check`: what is wrong with a configuration, and what would keep a gateway from starting.

use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use crate::common::{Home, PROGRAM, at_last, free_port};

/// A program that is killed if it has not ended.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the program to its end. Returns its exit code, and what it says, which fits into a pipe.
fn run(options: &str) -> (i32, String) {
    run_with(options, &std::env::var("PATH").unwrap())
}

/// As [`run`], with programs of another path.
fn run_with(options: &str, path: &str) -> (i32, String) {
    let mut command = Command::new(PROGRAM);
    command.env("PATH", path).args(options.split_whitespace()).env("XDG_CONFIG_HOME", "/nonexistent");
    let mut child = Ending(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    at_last("the program ends", || child.0.try_wait().unwrap().is_some());
    let mut text = String::new();
    child.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    child.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    (child.0.wait().unwrap().code().unwrap(), text)
}

fn contains(text: &str, parts: &[&str]) -> bool {
    text.lines().any(|line| parts.iter().all(|part| line.contains(part)))
}

/// All that would keep a gateway from starting is reported at once.
#[test]
fn a_check_tries_what_a_start_would_do() {
    let home = Home::new("check");
    let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let (tcp, udp) =
        (tcp.local_addr().map(|at| (at, tcp)).unwrap(), udp.local_addr().map(|at| (at, udp)).unwrap());
    let port = free_port();
    let config = home.write(
        "all.toml",
        &format!(
            "listen = \"127.0.0.1:{port},192.0.2.77:{port}\"\ninsecure = true\nadmin = \"192.0.2.77:9898\"\n\
             access_log = \"/nonexistent/access.log\"\n[[peer]]\nname = \"a\"\naddresses = [\"127.0.0.1:9\"]\n\
             [[socks]]\nlisten = \"{}\"\n[[socks]]\nlisten = \"192.0.2.77:1080\"\nfrom = [\"192.0.2.0/24\"]\n\
             [[forward]]\nlisten = \"192.0.2.77:80\"\nto = \"h:1\"\nfrom = [\"192.0.2.0/24\"]\n\
             [[forward]]\nprotocol = \"udp\"\nlisten = \"{}\"\nto = \"h:1\"\n\
             [[access]]\nallow = [\"h:1\"]\n",
            tcp.0, udp.0
        ),
    );
    let (code, said) = run(&format!("--config {config} --check"));
    assert_eq!(code, 1, "{said}");
    let lacks = "this machine does not have the address";
    for parts in [
        ["error: listen: ", "192.0.2.77", lacks],
        ["error: admin: ", "192.0.2.77:9898", lacks],
        ["error: access_log: ", "/nonexistent", "create it first"],
        ["warning: socks[0].listen: ", &tcp.0.to_string(), "by this server if it is running"],
        ["error: socks[1].listen: ", "192.0.2.77:1080", lacks],
        ["error: forward[0].listen: ", "192.0.2.77:80", lacks],
        ["warning: forward[1].listen: ", &udp.0.to_string(), "by this server if it is running"],
    ] {
        assert!(contains(&said, &parts), "{parts:?}: {said}");
    }
    let log = home.write("access.log", "");
    let peer = "--peer a=127.0.0.1:9 --socks 0 --forward udp/0=h:1 --admin 127.0.0.1:0";
    let (code, said) = run(&format!("--listen 127.0.0.1:0 --allow h:1 {peer} --access-log {log} --check"));
    assert_eq!((code, said.trim()), (0, "The configuration is valid."));
}

/// Files that can't be read are reported, each with what reads it.
#[test]
fn a_check_reads_keys() {
    let (code, said) = run("--listen 127.0.0.1:0 --allow h:1 --key /nonexistent/key.pem --check");
    assert!(
        code == 2 && contains(&said, &["encryption: /nonexistent/key.pem", "strandline keygen"]),
        "{said}"
    );
    let home = Home::new("check-keys");
    let key = home.write("broken.pem", "no key\n");
    let (code, said) = run(&format!("--listen 127.0.0.1:0 --allow h:1 --key {key} --check"));
    assert!(code == 2 && contains(&said, &["encryption: ", &key]), "{said}");
    let (code, said) = run("--listen 127.0.0.1:0 --allow h:1 --admin-token /nonexistent/token --check");
    assert!(code == 2 && contains(&said, &["/nonexistent/token"]), "{said}");
}

/// A start that fails says what to do about it.
#[test]
fn a_start_says_why_it_fails() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    let (code, said) = run(&format!("--listen {at} --allow h:1"));
    let parts =
        ["listening on UDP", &at.to_string(), "choose another port, or stop the program that uses it"];
    assert!(code == 1 && contains(&said, &parts), "{said}");
    let (code, said) = run(&format!("--peer a=127.0.0.1:9 --forward udp/{at}=h:1"));
    let parts = ["listening on UDP", &at.to_string(), "is another server running there"];
    assert!(code == 1 && contains(&said, &parts), "{said}");
    let (code, said) = run("--peer a=127.0.0.1:9 --socks 192.0.2.77:1080 --from 192.0.2.0/24");
    let parts = ["listening on TCP 192.0.2.77:1080", "this machine does not have the address"];
    assert!(code == 1 && contains(&said, &parts), "{said}");
}

/// The rules of captured connections are checked by nft, which sets none.
#[test]
fn a_check_tries_rules_of_captures() {
    let home = Home::new("check-rules");
    let options = "--peer a=127.0.0.1:9 --capture 10.2.0.0/16 --check";
    assert_eq!(run(options).0, 0, "{}", run(options).1);
    // An nft that refuses.
    std::fs::create_dir(home.path.join("bin")).unwrap();
    let nft = home.write("bin/nft", "#!/bin/sh\ncat > /dev/null; echo Error: no such chain >&2; exit 1\n");
    std::fs::set_permissions(nft, std::fs::Permissions::from_mode(0o755)).unwrap();
    let bin = home.path.join("bin").display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let (code, said) = run_with(options, &path);
    let parts = ["error: redirect[0].capture: ", "checking the rules", "no such chain"];
    assert!(code == 1 && contains(&said, &parts), "{said}");
    let (code, said) = run_with(options, "/nonexistent");
    let parts = ["error: redirect[0].capture: ", "apt-get install nftables"];
    assert!(code == 1 && contains(&said, &parts), "{said}");
    // One that refuses the rules of one listener, which the error names.
    home.write("bin/nft", "#!/bin/sh\n! grep -q 10.3.0.0 || { echo Error: no route >&2; exit 1; }\n");
    let captures = |network: &str| {
        let listen = format!("127.0.0.1:{}", free_port());
        format!("[[redirect]]\nlisten = \"{listen}\"\npeer = \"a\"\ncapture = [\"{network}\"]\n")
    };
    let peer = "[[peer]]\nname = \"a\"\naddresses = [\"127.0.0.1:9\"]\n";
    let both = [captures("10.2.0.0/16"), captures("10.3.0.0/16")].concat();
    let file = home.write("captures.toml", &format!("{peer}{both}"));
    let (code, said) = run_with(&format!("--config {file} --check"), &path);
    let parts = ["error: redirect[1].capture: ", "checking the rules", "no route"];
    assert!(code == 1 && contains(&said, &parts), "{said}");
    // Rules of the operator's own need no nft.
    let own = "--peer a=127.0.0.1:9 --redirect 0 --check";
    assert_eq!(run_with(own, "/nonexistent").0, 0);
}
