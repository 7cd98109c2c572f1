//! Changes of the configuration while connections are open.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use crate::common::{
    Gateway, Home, PROGRAM, accept, at_last, free_address, is_closed, patient, read_all, read_exactly,
};
use crate::encryption::homes;

/// A server, and its address.
fn server() -> (TcpListener, SocketAddr) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    (server, address)
}

/// Connects by a listener, and passes bytes to a server.
fn connects(listener: SocketAddr, server: &TcpListener) -> (TcpStream, TcpStream) {
    let mut client = patient(TcpStream::connect(listener).unwrap());
    client.write_all(b"hello").unwrap();
    let mut served = accept(server);
    assert_eq!(read_exactly(&mut served, 5), b"hello");
    (client, served)
}

/// Whether bytes still pass in both directions.
fn is_alive((client, served): &mut (TcpStream, TcpStream)) -> bool {
    client.write_all(b"up").unwrap();
    served.write_all(b"down").unwrap();
    read_exactly(served, 2) == b"up" && read_exactly(client, 4) == b"down"
}

/// Runs `strandline gateway reload`. Returns whether it succeeded, and what it says.
fn reload(gateway: &Gateway) -> (bool, String) {
    let admin = gateway.announced["admin"].as_str().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_strandline-gateway"));
    let output = command.args(["reload", "--admin", admin]).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// What changes a gateway is asked for on its host, or with the token.
#[test]
fn strangers_change_nothing() {
    let home = Home::new("token");
    let (config, token) = (home.write("near.toml", ""), home.write("token", "0123456789abcdef\n"));
    let peer = format!("--peer far=127.0.0.1:9 --config {config}");
    let told = |near: &Gateway, options: &str| {
        let admin: SocketAddr = near.announced["admin"].as_str().unwrap().parse().unwrap();
        let admin = format!("127.0.0.1:{}", admin.port());
        let mut command = Command::new(PROGRAM);
        let output = command.args(["reload", "--admin", &admin]).args(options.split_whitespace()).output();
        let output = output.unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let near = Gateway::start(&format!("{peer} --admin 0.0.0.0:0"));
    let (is_done, text) = told(&near, "");
    assert!(!is_done && text.contains("not allowed without the token"), "{text}");
    for address in ["0.0.0.0:0", "127.0.0.1:0"] {
        let near = Gateway::start(&format!("{peer} --admin {address} --admin-token {token}"));
        assert!(!told(&near, "").0, "{address}");
        let (is_done, text) = told(&near, &format!("--admin-token {token}"));
        assert!(is_done, "{address}: {text}");
    }
    let near = Gateway::start(&format!("{peer} --admin 127.0.0.1:0"));
    assert!(told(&near, "").0);
}

#[test]
fn rules_and_ways_change_under_connections() {
    let home = Home::new("reload");
    let ((one, first), (two, second)) = (server(), server());
    let far_file = home.write("far.toml", &format!("[[access]]\nallow = [\"{first}\"]\n"));
    let far = Gateway::start(&format!("--listen 127.0.0.1:0 --admin 127.0.0.1:0 --config {far_file}"));
    let listen = far.listens();
    let peer = format!("[[peer]]\nname = \"far\"\naddresses = [\"{listen}\"]\n");
    let (listener, other) = (free_address(), free_address());
    let forward = |at, to| format!("[[forward]]\nlisten = \"{at}\"\nto = \"{to}\"\n");
    let near_file = home.write("near.toml", &format!("{peer}{}", forward(listener, first)));
    let near = Gateway::start(&format!("--admin 127.0.0.1:0 --config {near_file}"));
    let mut before = connects(near.listener(0), &one);

    // The same socket leads elsewhere, and there is one more.
    home.write("far.toml", &format!("[[access]]\nallow = [\"{second}\"]\n"));
    assert_eq!(reload(&far), (true, "reloaded; changed: access\n".to_owned()));
    home.write("near.toml", &format!("{peer}{}{}", forward(listener, second), forward(other, second)));
    assert!(reload(&near).0);
    let listeners = near.status()["listeners"].clone();
    assert_eq!(listeners[0]["listen"], near.announced["listeners"][0]["listen"]);
    for listener in listeners.as_array().unwrap() {
        let mut after = connects(listener["listen"].as_str().unwrap().parse().unwrap(), &two);
        assert!(is_alive(&mut after));
    }
    assert!(is_alive(&mut before), "it was allowed when it began");

    // No listener is left, and what is open goes on.
    home.write("near.toml", &peer);
    assert!(reload(&near).0);
    at_last("nothing listens", || is_closed(listener) && is_closed(other));
    assert!(is_alive(&mut before));
}

#[test]
fn a_wrong_file_changes_nothing() {
    let home = Home::new("reload-wrong");
    let (server, address) = server();
    let good = format!("[[access]]\nallow = [\"{address}\"]\n");
    let file = home.write("far.toml", &good);
    let far = Gateway::start(&format!("--listen 127.0.0.1:0 --admin 127.0.0.1:0 --config {file}"));
    let near = Gateway::start(&format!("--peer far={} --forward 0={address}", far.listens()));
    home.write("far.toml", "[[access]]\nallow = [\"nowhere\"]\n");
    let (is_done, text) = reload(&far);
    assert!(!is_done && text.contains("far.toml:2: access[0].allow"), "{text}");
    assert_eq!(far.status()["reloads"]["count"], 1);
    drop(connects(near.listener(0), &server));
    // A signal does the same, and says so in the log.
    far.hang_up();
    at_last("the log has the reason", || far.log().contains("configuration not reloaded"));
    home.write("far.toml", &format!("{good}[limits]\nbuffer_mib = 32\n"));
    let (is_done, text) = reload(&far);
    assert!(is_done && text.contains("limits.buffer_mib: needs a new start"), "{text}");
}

#[test]
fn connections_of_a_removed_peer_end_by_themselves() {
    let home = Home::new("reload-peer");
    let (server, address) = server();
    let options = format!("--listen 127.0.0.1:0 --admin 127.0.0.1:0 --allow {address}");
    let (first, second) = (Gateway::start(&options), Gateway::start(&options));
    let config = |far: &Gateway| {
        let listen = far.listens();
        format!(
            "[[peer]]\nname = \"far\"\naddresses = [\"{listen}\"]\n\
             [[forward]]\nlisten = \"127.0.0.1:0\"\nto = \"{address}\"\n"
        )
    };
    let file = home.write("near.toml", &config(&first));
    let near = Gateway::start(&format!("--admin 127.0.0.1:0 --config {file}"));
    let mut before = connects(near.listener(0), &server);
    home.write("near.toml", &config(&second));
    assert!(reload(&near).0);
    let mut after = connects(near.listener(0), &server);
    assert!(is_alive(&mut before) && is_alive(&mut after));
    let open = |far: &Gateway| far.status()["open"].as_u64().unwrap();
    assert_eq!((open(&first), open(&second)), (1, 1));
    drop(before);
    let associations = |far: &Gateway| far.status()["associations"].as_array().unwrap().len();
    at_last("the association with the removed peer ends", || associations(&first) == 0);
    assert!(is_alive(&mut after));
}

/// Gateways with keys, of which the far one does not trust the near one yet.
fn strangers(test: &str, address: SocketAddr) -> ((Home, Gateway), (Home, Gateway)) {
    let (far_home, near_home) = (Home::new(&format!("{test}-far")), Home::new(&format!("{test}-near")));
    near_home.trust("127.0.0.1", far_home.key);
    let options = format!("--listen 127.0.0.1:0 --admin 127.0.0.1:0 --allow {address}");
    let far = Gateway::start_in(&far_home.path, &options);
    let options = format!("--peer far={} --admin 127.0.0.1:0 --forward 0={address}", far.listens());
    let near = Gateway::start_in(&near_home.path, &options);
    ((far_home, far), (near_home, near))
}

#[test]
fn keys_are_read_again() {
    let (server, address) = server();
    let ((far_home, far), (near_home, near)) = strangers("reload-keys", address);
    at_last("its key is unknown", || near.log().contains("does not trust the key"));
    far_home.trust("laptop", near_home.key);
    assert_eq!(reload(&far), (true, "reloaded; changed: encryption\n".to_owned()));
    at_last("it gets in", || near.status()["peers"][0]["up"] == true);
    let mut open = connects(near.listener(0), &server);
    let (is_done, text) = reload(&far);
    assert!(is_done && !text.contains("encryption"), "{text}");
    assert!(is_alive(&mut open), "it is still trusted");

    far_home.write("strandline/known_hosts", "");
    assert!(reload(&far).0);
    assert_eq!(read_all(&mut open.0), (Vec::new(), false));
    let key = near_home.key.to_string();
    at_last("the log says why", || far.log().contains(&key) && near.status()["peers"][0]["up"] == false);
}

#[test]
fn a_far_gateways_key_may_be_revoked() {
    let (server, address) = server();
    let ((far_home, far), (near_home, near)) = strangers("reload-revoked", address);
    far_home.trust("laptop", near_home.key);
    assert!(reload(&far).0);
    let mut open = connects(near.listener(0), &server);
    near_home.write("strandline/known_hosts", "");
    assert!(reload(&near).0);
    assert_eq!(read_all(&mut open.0), (Vec::new(), false));
    drop((server, far));
}

#[test]
fn systemd_accepts_the_unit() {
    let home = Home::new("unit");
    let unit = include_str!("../../../docs/strandline-gateway.service");
    let unit = unit.replace("/usr/bin/strandline", env!("CARGO_BIN_EXE_strandline-gateway"));
    let file = home.write("strandline-gateway.service", &unit);
    let run = |arguments: &[&str]| {
        let output = Command::new("systemd-analyze").args(arguments).arg(&file).output();
        let output =
            output.unwrap_or_else(|error| panic!("systemd-analyze: {error}: apt-get install systemd"));
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "{text}");
        text
    };
    assert_eq!(run(&["verify", "--man=no"]), "");
    run(&["security", "--offline=true", "--no-pager", "--threshold=20"]);
}

/// The sockets of a peer with a trust of its own go with it.
#[test]
fn changed_peers_leave_no_sockets() {
    let home = Home::new("sockets");
    let write = |port: u16| {
        let peer = format!("[[peer]]\nname = \"far\"\naddresses = [\"127.0.0.1:{port}\"]\n");
        home.write("near.toml", &format!("{peer}trust = [\"{}\"]\n", home.key))
    };
    let file = write(9);
    home.trust("other", home.key);
    let near = Gateway::start_in(
        &home.path,
        &format!("--config {file} --forward 0=127.0.0.1:1 --admin 127.0.0.1:0"),
    );
    let sockets = || {
        let all = std::fs::read_dir(format!("/proc/{}/fd", near.pid())).unwrap();
        let targets = all.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:[")).count()
    };
    let before = sockets();
    for port in 10..40 {
        write(port);
        let (is_done, text) = reload(&near);
        assert!(is_done, "{text}");
    }
    at_last("they are closed", || sockets() <= before + 4);
}

/// A reload that fails for want of descriptors, at whatever point, leaves the listeners that are there.
#[test]
fn a_reload_without_descriptors_changes_nothing() {
    let (home, (server, address)) = (Home::new("reload-limit"), server());
    let far = Gateway::start(&format!("--listen 127.0.0.1:0 --allow {address}"));
    let forward = |listen: &str| format!("[[forward]]\nlisten = \"{listen}\"\nto = \"{address}\"\n");
    let peer = format!("[[peer]]\nname = \"far\"\naddresses = [\"{}\"]\n", far.listens());
    let (first, new) = (forward(&free_address().to_string()), free_address());
    let file = home.write("near.toml", &format!("{peer}{first}"));
    let mut command = Command::new(PROGRAM);
    command.args(["--config", &file]).env("XDG_CONFIG_HOME", "/nonexistent").env("RUST_LOG", "info");
    let near = Gateway::spawn(command);
    let open = || {
        let all = std::fs::read_dir(format!("/proc/{}/fd", near.pid())).unwrap();
        all.map(|fd| fd.unwrap().file_name().to_string_lossy().parse::<u64>().unwrap()).collect::<Vec<_>>()
    };
    let mut idle = Vec::new();
    at_last("it is idle", || {
        let before = std::mem::replace(&mut idle, open());
        before == idle
    });
    let limit = |count: u64| {
        let mut command = Command::new("prlimit");
        command.args([format!("--pid={}", near.pid()), format!("--nofile={count}:")]);
        assert!(command.status().unwrap().success());
    };
    home.write("near.toml", &format!("{peer}{}{first}", forward(&new.to_string())));
    // First it can't read its file, then it can, but has no descriptor for the new socket, and so on.
    let mut failed = 0;
    let logged = |line| near.log().matches(line).count();
    for count in (0..).find(|fd| !idle.contains(fd)).unwrap().. {
        limit(count);
        near.hang_up();
        let is_over = || logged("configuration reloaded") + logged("configuration not reloaded") > failed;
        at_last("the reload is over", is_over);
        limit(1024);
        drop(connects(near.listener(0), &server));
        if logged("configuration reloaded") > 0 {
            drop(connects(new, &server));
            break;
        }
        failed += 1;
        at_last("the connection's descriptors are free", || open().len() <= idle.len());
    }
    assert!(failed > 1, "{failed}");
}

/// No association uses the key of a configuration that was refused.
#[test]
fn refused_configurations_leave_no_keys() {
    let ((far_home, home), other) = (homes("refused"), Home::new("refused-other"));
    other.trust("127.0.0.1", far_home.key);
    let (server, address) = server();
    let far = Gateway::start_in(&far_home.path, &format!("--listen 127.0.0.1:0 --allow {address}"));
    let (taken, free) = (TcpListener::bind("127.0.0.1:0").unwrap(), free_address());
    let peer = format!("[[peer]]\nname = \"far\"\naddresses = [\"{}\"]\n", far.listens());
    let forward = |at| format!("{peer}[[forward]]\nlisten = \"{at}\"\nto = \"{address}\"\n");
    let write = |of: &Home, rest: &str| {
        let folder = of.path.join("strandline").display().to_string();
        let keys = format!("key = \"{folder}/key.pem\"\ntrust = [\"{folder}/known_hosts\"]");
        home.write("near.toml", &format!("listen = \"127.0.0.1:0\"\n[encryption]\n{keys}\n{rest}"))
    };
    let file = write(&home, "");
    let near = Gateway::start(&format!("--admin 127.0.0.1:0 --config {file}"));
    write(&other, &forward(taken.local_addr().unwrap()));
    let (is_done, text) = reload(&near);
    assert!(!is_done && text.contains("listen"), "{text}");
    write(&home, &forward(free));
    assert!(reload(&near).0);
    drop(connects(free, &server));
}
