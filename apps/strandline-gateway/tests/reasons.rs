//! The reasons for which connections and flows end, as the access logs of both gateways have them.

use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;

use crate::common::{
    Gateway, Home, PATIENCE, PROGRAM, World, accept, at_last, free_address, log_lines, patient, read_all,
    read_exactly, reset, shut_down,
};
use crate::datagrams::metric;

/// Access logs of two gateways.
struct Logs {
    home: Home,
    far: String,
    near: String,
}

impl Logs {
    fn new(name: &str) -> Self {
        let home = Home::new(name);
        let [far, near] = ["far.log", "near.log"].map(|name| home.write(name, ""));
        Self { home, far, near }
    }

    fn world(&self, far: &str, near: &str) -> World {
        let far = format!("--access-log {} --admin 127.0.0.1:0 {far}", self.far);
        World::with(&far, &format!("--access-log {} {near}", self.near))
    }
}

/// What the next line of an access log says of a listener's connection: all of them are of this end.
fn assert_ended(log: &str, listener: &str, end: &str) {
    let mut found = Vec::new();
    at_last(&format!("{listener} has ended"), || {
        let lines = log_lines(log).into_iter();
        found = lines.filter(|line| line["listener"] == listener).map(|line| line["end"].clone()).collect();
        !found.is_empty()
    });
    assert!(found.iter().all(|found| *found == end), "{listener}: {found:?} instead of {end}");
    std::fs::write(log, "").unwrap();
}

#[test]
fn resets_name_the_side_that_resets() {
    let logs = Logs::new("resets");
    let world = logs.world("", "");
    for (resets_client, near, far) in
        [(true, "reset_here", "reset_there"), (false, "reset_there", "reset_here")]
    {
        let (client, server) = world.connect();
        at_last("both are connected", || world.near.status()["connections"][0]["connected"] == true);
        let (resetting, mut other) = if resets_client { (client, server) } else { (server, client) };
        reset(resetting);
        assert!(!read_all(&mut other).1);
        assert_ended(&logs.near, "forward", near);
        assert_ended(&logs.far, "onward", far);
    }
}

/// A client that resets its connection while the far gateway is still connecting.
#[test]
fn resets_during_a_connect_are_resets() {
    let logs = Logs::new("early-resets");
    let server = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    server.bind(&free_address().into()).unwrap();
    server.listen(0).unwrap();
    let server: TcpListener = server.into();
    let to = server.local_addr().unwrap();
    let world = logs.world(&format!("--allow {to}"), &format!("--forward 0={to}"));
    // It takes no more: the kernel drops further SYNs.
    let waits = TcpStream::connect(to).unwrap();
    let client = patient(TcpStream::connect(world.near.listener(1)).unwrap());
    at_last("the far gateway connects", || world.far.status()["open"] == 1);
    reset(client);
    assert_ended(&logs.near, "forward", "reset_here");
    drop((accept(&server), waits));
    assert_ended(&logs.far, "onward", "reset_there");
}

#[test]
fn direct_connections_name_the_side_that_resets() {
    let (logs, server) = (Logs::new("direct-resets"), TcpListener::bind("127.0.0.1:0").unwrap());
    let to = server.local_addr().unwrap();
    let near = Gateway::start(&format!(
        "--peer far={} --fallback-tcp --map never={to} --forward 0={to} --access-log {}",
        free_address(),
        logs.near
    ));
    for (resets_client, end) in [(true, "reset_here"), (false, "reset_there")] {
        let (client, served) = near.connect_to(&server);
        let (resetting, mut other) = if resets_client { (client, served) } else { (served, client) };
        reset(resetting);
        assert!(!read_all(&mut other).1);
        assert_ended(&logs.near, "forward", end);
    }
}

/// A gateway that ends says so of the connections that it resets.
#[test]
fn an_end_is_no_lost_association() {
    let logs = Logs::new("ending");
    let (mut world, server) = (logs.world("", ""), TcpListener::bind("127.0.0.1:0").unwrap());
    let to = server.local_addr().unwrap();
    let direct = logs.home.write("direct.log", "");
    let direct_near = Gateway::start(&format!(
        "--peer far={} --fallback-tcp --map never={to} --forward 0={to} --access-log {direct}",
        free_address()
    ));
    let directly = direct_near.connect_to(&server);
    let (mut client, mut served) = world.connect();
    for gateway in [&direct_near, &world.near] {
        gateway.terminate();
        at_last("it takes nothing new", || crate::common::is_closed(gateway.listener(0)));
        gateway.terminate();
    }
    assert_eq!((read_all(&mut client).1, read_all(&mut served).1), (false, false));
    assert_ended(&logs.near, "forward", "ending");
    assert_ended(&direct, "forward", "ending");
    assert_ended(&logs.far, "onward", "association_lost");
    world.far.kill();
    drop(directly);
}

/// Clients that name no destination, and those that may not use a listener.
#[test]
fn refused_clients_are_logged() {
    let logs = Logs::new("malformed");
    let world = logs.world("", "--socks 0 --http-connect 0 --preload 0");
    let from = World::with("", &format!("--socks 0 --from 127.0.0.2 --access-log {}", logs.far));
    for (at, request, listener) in [
        (0, &[5, 1, 2][..], "socks"),
        (0, &[5, 1, 0, 5, 2, 0, 1][..], "socks"),
        (0, b"GET / HTTP/1.1\r\n\r\n", "socks"),
        (1, b"GET / HTTP/1.1\r\n\r\n", "http_connect"),
        (2, &[7; 36], "preload"),
        // Less than a request: the gateway waits for the rest, but not for ever.
        (0, &[], "socks"),
        (2, &[7; 35], "preload"),
    ] {
        let mut client = patient(TcpStream::connect(world.near.listener(at)).unwrap());
        client.write_all(request).unwrap();
        read_all(&mut client);
        assert_ended(&logs.near, listener, "malformed");
    }
    let mut stranger = patient(TcpStream::connect(from.near.listener(0)).unwrap());
    assert_eq!(read_all(&mut stranger), (Vec::new(), false));
    assert_ended(&logs.far, "socks", "not_allowed");
}

/// Two gateways with a flow from a client to a server.
fn with_flow(name: &str) -> (Logs, Gateway, Gateway, UdpSocket, UdpSocket) {
    let (logs, server) = (Logs::new(name), UdpSocket::bind("127.0.0.1:0").unwrap());
    let to = server.local_addr().unwrap();
    let far = Gateway::start(&format!(
        "--listen 127.0.0.1:0 --allow-udp {to} --admin 127.0.0.1:0 --access-log {}",
        logs.far
    ));
    let near = Gateway::start(&format!(
        "--peer far={} --forward udp/0={to} --admin 127.0.0.1:0 --access-log {}",
        far.listens(),
        logs.near
    ));
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(near.listener(0)).unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    client.send(b"hello").unwrap();
    assert_eq!(server.recv(&mut [0; 16]).unwrap(), 5);
    at_last("the flow is open", || near.status()["connections"][0]["connected"] == true);
    (logs, far, near, client, server)
}

#[test]
fn flows_of_lost_associations_are_lost() {
    let (logs, mut far, _near, _client, _server) = with_flow("lost-flow");
    far.kill();
    assert_ended(&logs.near, "udp", "association_lost");
    let (logs, _far, mut near, _client, _server) = with_flow("lost-flow-far");
    near.kill();
    assert_ended(&logs.far, "onward_udp", "association_lost");
}

/// A flow whose socket at the far gateway something else shuts down has no clean end.
#[test]
fn flows_that_are_shut_down_are_reset() {
    let (logs, far, _near, _client, server) = with_flow("shut-flow");
    let of_flow = far.status()["connections"].clone();
    let (mut peer, mut room) = (None, [0; 16]);
    server.set_nonblocking(true).unwrap();
    _client.send(b"again").unwrap();
    at_last("the server has its address", || {
        peer = server.recv_from(&mut room).ok();
        peer.is_some()
    });
    assert!(shut_down(far.pid(), peer.unwrap().1), "{of_flow}");
    assert_ended(&logs.far, "onward_udp", "reset_here");
    assert_ended(&logs.near, "udp", "reset_there");
}

/// Flows that give way at the near gateway have lost no association at the far one.
#[test]
fn displaced_flows_are_resets_at_the_peer() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let home = Home::new("displaced");
    let limits = home.write("limits.toml", "[limits]\nconnections_max = 16\n");
    let far = Gateway::start(&format!("--listen 127.0.0.1:0 --allow-udp {to} --admin 127.0.0.1:0"));
    let near = Gateway::start(&format!(
        "--peer far={} --forward udp/0={to} --admin 127.0.0.1:0 --config {limits}",
        far.listens()
    ));
    let strangers: Vec<_> = (0..10).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    at_last("flows give way at the far gateway, too", || {
        strangers.iter().for_each(|stranger| drop(stranger.send_to(b"flood", near.listener(0))));
        let ended = |end: &str| metric(&far, &format!("connection_ends_total{{end=\"{end}\"}}"));
        assert_eq!(ended("association_lost"), 0);
        ended("reset_there") > 5
    });
}

/// The log says why a listener for a peer has ended.
#[test]
fn ended_listeners_name_the_reason() {
    let (server, home) = (TcpListener::bind("127.0.0.1:0").unwrap(), Home::new("listener-ends"));
    let (to, at) = (server.local_addr().unwrap(), free_address());
    let mut command = Command::new(PROGRAM);
    command.args(["--listen", "127.0.0.1:0", "--allow-listen", &at.to_string(), "--allow", &to.to_string()]);
    command.env("XDG_CONFIG_HOME", Path::new("/nonexistent")).env("RUST_LOG", "strandline_gateway=info");
    let far = Gateway::spawn(command);
    let peer = format!("[[peer]]\nname = \"far\"\naddresses = [\"{}\"]\n", far.listens());
    let reverse = format!("[[reverse]]\nlisten = \"{at}\"\nto = \"{to}\"\n");
    let start = || {
        let file = home.write("near.toml", &format!("{peer}{reverse}"));
        let near = Gateway::start(&format!("--config {file} --forward 0={to} --admin 127.0.0.1:0"));
        at_last("the far gateway listens", || near.status()["reverses"][0]["state"] == "listening");
        near
    };
    let ended = |why: &str| {
        let is_said = |line: &str| line.contains("listening for a peer ended") && line.contains(why);
        at_last(why, || far.log().lines().any(is_said));
    };
    let near = start();
    // It keeps the association.
    let open = near.connect_to(&server);
    home.write("near.toml", &peer);
    near.hang_up();
    ended("the peer does not ask for it any more");
    drop((open, near));
    let near = start();
    assert!(near.end());
    ended("the association is shut down");
    let mut near = start();
    near.kill();
    let _next = start();
    ended("the association has ended: ");
    let mut client = patient(TcpStream::connect(at).unwrap());
    client.write_all(b"served").unwrap();
    assert_eq!(read_exactly(&mut accept(&server), 6), b"served");
}
