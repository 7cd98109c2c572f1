//! The association: kept, set up again, or done without.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use crate::common::{
    Gateway, Home, PROGRAM, World, accept, at_last, free_address, free_port, patient, read_all, read_exactly,
    serve_echo,
};

#[test]
fn a_restarted_far_gateway_serves_again() {
    let mut world = World::new();
    serve_echo(&world.server);
    let works = |world: &World| {
        let mut client = patient(TcpStream::connect(world.near.listener(0)).unwrap());
        // A reset is reported once: by a write, or by the call that reads.
        let sent = client.write_all(b"hello").and_then(|()| client.shutdown(std::net::Shutdown::Write));
        sent.is_ok() && read_all(&mut client) == (b"hello".to_vec(), true)
    };
    assert!(works(&world));
    world.restart_far();
    at_last("it serves again", || works(&world));
}

#[test]
fn connections_wait_for_the_association() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let listen = free_address();
    let near = Gateway::start(&format!("--peer far={listen} --forward 0={address}"));
    let mut client = patient(TcpStream::connect(near.listener(0)).unwrap());
    client.write_all(b"early").unwrap();
    let _far = Gateway::start(&format!("--listen {listen} --allow {address}"));
    let mut served = accept(&server);
    assert_eq!(read_exactly(&mut served, 5), b"early");
}

/// Of the addresses of a peer's name, one leads to it.
#[test]
fn all_addresses_of_a_name_are_tried() {
    let home = Home::new("addresses");
    let hosts = home.write("hosts", "127.0.0.2 far.test\n127.0.0.1 far.test\n");
    let multiple = home.write("host.conf", "multi on\n");
    for address in ["127.0.0.1", "127.0.0.2"] {
        let listen = SocketAddr::new(address.parse().unwrap(), free_port());
        let _far = Gateway::start(&format!("--listen {listen}"));
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c"]).env("XDG_CONFIG_HOME", "/nonexistent").arg(format!(
            "mount --bind {hosts} /etc/hosts && mount --bind {multiple} /etc/host.conf && exec \"$@\""
        ));
        let peer = format!("far=far.test:{}", listen.port());
        command.args([
            "sh",
            PROGRAM,
            "--peer",
            &peer,
            "--forward",
            "0=127.0.0.1:1",
            "--admin",
            "127.0.0.1:0",
        ]);
        let near = Gateway::spawn(command);
        at_last("there is an association", || near.status()["peers"][0]["up"] == true);
    }
}

#[test]
fn without_an_association_connections_fail() {
    let config = std::env::temp_dir().join(format!("strandline-gateway-wait-{}.toml", std::process::id()));
    let peer = "[[peer]]\nname = \"far\"\naddresses = [\"127.0.0.1:9\"]\nwait_ms = 100\n";
    std::fs::write(&config, format!("{peer}[[forward]]\nlisten = \"0\"\nto = \"127.0.0.1:1\"\n")).unwrap();
    let near = Gateway::start(&format!("--config {}", config.display()));
    std::fs::remove_file(config).unwrap();
    let mut client = patient(TcpStream::connect(near.listener(0)).unwrap());
    assert_eq!(read_all(&mut client), (Vec::new(), false));
}

#[test]
fn a_fallback_goes_straight_over_tcp() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let near = Gateway::start(&format!(
        "--peer far=127.0.0.1:9 --fallback-tcp --map auto=127.0.0.0/8:* --forward 0={address} --admin 127.0.0.1:0"
    ));
    let mut client = patient(TcpStream::connect(near.listener(0)).unwrap());
    client.write_all(b"direct").unwrap();
    let mut served = accept(&server);
    assert_eq!(read_exactly(&mut served, 6), b"direct");
    assert_eq!(near.status()["connections"][0]["direct"], true);
    drop(client);
    assert_eq!(read_all(&mut served), (Vec::new(), true));
}

/// A far gateway that is told to end serves the connections that it has. New ones do without it.
#[test]
fn new_connections_leave_a_gateway_that_ends() {
    let mut world = World::with("", "--fallback-tcp --map always=127.0.0.0/8:*");
    at_last("there is an association", || world.near.status()["peers"][0]["up"] == true);
    let (mut client, mut served) = world.connect();
    client.write_all(b"before").unwrap();
    assert_eq!(read_exactly(&mut served, 6), b"before");
    assert_eq!(world.near.status()["connections"][0]["direct"], false);
    world.far.terminate();
    at_last("the near one knows", || world.near.status()["peers"][0]["up"] == false);
    let (mut direct, mut served_directly) = world.connect();
    direct.write_all(b"without").unwrap();
    assert_eq!(read_exactly(&mut served_directly, 7), b"without");
    client.write_all(b"goes on").unwrap();
    assert_eq!(read_exactly(&mut served, 7), b"goes on");
    assert!(!world.far.has_ended());
    drop(client);
    assert_eq!(read_all(&mut served), (Vec::new(), true));
    drop(served);
    at_last("the far one ends with its last connection", || world.far.has_ended());
}

#[test]
fn an_association_on_demand_ends_when_idle() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let far = Gateway::start(&format!("--listen 127.0.0.1:0 --allow {address} --admin 127.0.0.1:0"));
    let listen = far.announced["listen"].as_str().unwrap();
    let config = std::env::temp_dir().join(format!("strandline-gateway-demand-{}.toml", std::process::id()));
    let peer = format!(
        "[[peer]]\nname = \"far\"\naddresses = [\"{listen}\"]\nkeep = \"on-demand\"\nidle_timeout_secs = 1\n"
    );
    std::fs::write(&config, format!("{peer}[[forward]]\nlisten = \"0\"\nto = \"{address}\"\n")).unwrap();
    let near = Gateway::start(&format!("--config {}", config.display()));
    std::fs::remove_file(config).unwrap();
    let associations = || far.status()["associations"].as_array().unwrap().len();
    assert_eq!(associations(), 0);
    for _ in 0..2 {
        let client = TcpStream::connect(near.listener(0)).unwrap();
        let served = accept(&server);
        assert_eq!(associations(), 1);
        drop((client, served));
        at_last("the association ends", || associations() == 0);
    }
}

/// A peer with as many associations as it may have is told so, and gets in once one has ended.
#[test]
fn further_associations_of_a_peer_are_refused() {
    let home = Home::new("associations");
    let file = home.write("far.toml", "[limits]\nassociations_max = 1\n");
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let far = Gateway::start(&format!(
        "--listen 127.0.0.1:0 --admin 127.0.0.1:0 --allow {address} --config {file}"
    ));
    let near =
        || Gateway::start(&format!("--peer far={} --admin 127.0.0.1:0 --forward 0={address}", far.listens()));
    let is_up = |near: &Gateway| near.status()["peers"][0]["up"] == true;
    let first = near();
    at_last("the first has its association", || is_up(&first));
    let second = near();
    at_last("the second is refused", || second.log().contains("limits.associations_max"));
    let refused = || {
        let metrics = far.admin("metrics");
        let name = "strandline_gateway_associations_refused_total ";
        metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse::<usize>().unwrap()
    };
    at_last("it tries again", || refused() >= 4);
    let lines = far.log().matches("an association is refused").count();
    assert!((1..refused()).contains(&lines), "a refusal is not worth a line each time: {lines}");
    let mut client = patient(TcpStream::connect(first.listener(0)).unwrap());
    client.write_all(b"goes on").unwrap();
    assert_eq!(read_exactly(&mut accept(&server), 7), b"goes on");
    drop(client);
    assert!(first.end());
    at_last("the second gets in", || is_up(&second));
}
