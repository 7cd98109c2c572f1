//! The listeners, with clients of the tests and with curl and wget.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Output, Stdio};

use socket2::{Domain, Socket, Type};

use serde_json::Value;

use crate::common::{
    Gateway, Home, PATIENCE, PROGRAM, World, accept, at_last, bytes, free_address, patient, read_all,
    read_exactly, shut_down, stop_listening,
};
use crate::failures::socks;

/// Answers each HTTP request with this text until the test ends.
pub fn serve_http(listener: &TcpListener, text: &'static str) {
    let listener = listener.try_clone().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
                text.len()
            );
        }
    });
}

/// Runs a program, and returns its standard output.
fn output(program: &str, arguments: &str) -> String {
    let output = Command::new(program).args(arguments.split_whitespace()).output();
    let output =
        output.unwrap_or_else(|error| panic!("{program}: {error}: tests/interop/setup quick installs it"));
    assert!(output.status.success(), "{program} {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn curl_and_wget_fetch_through_each_way() {
    let world = World::with("", "--socks 0 --http-connect 0");
    serve_http(&world.server, "a page");
    let server = world.server.local_addr().unwrap();
    let (proxy, socks, forward) = (world.near.listener(1), world.near.listener(0), world.near.listener(2));
    assert_eq!(output("curl", &format!("-sS -x socks5h://{socks} http://{server}/")), "a page");
    assert_eq!(output("curl", &format!("-sS -p -x http://{proxy} http://{server}/")), "a page");
    assert_eq!(output("curl", &format!("-sS http://{forward}/")), "a page");
    assert_eq!(output("wget", &format!("-q -O - http://{forward}/")), "a page");
}

#[test]
fn early_data_of_proxy_clients_arrives() {
    let world = World::with("", "--http-connect 0 --early-reply");
    let server = world.server.local_addr().unwrap();
    let mut client = patient(TcpStream::connect(world.near.listener(0)).unwrap());
    write!(client, "CONNECT {server} HTTP/1.1\r\n\r\nfirst bytes").unwrap();
    let mut served = world.accept();
    assert_eq!(read_exactly(&mut served, 11), b"first bytes");
    served.write_all(b"answer").unwrap();
    drop(served);
    let (answer, is_clean) = read_all(&mut client);
    assert!(is_clean && answer.ends_with(b"\r\n\r\nanswer"), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn names_are_resolved_on_the_far_side() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let world = World::with(&format!("--allow localhost:{port}"), "--socks 0");
    let (mut client, code) = socks(world.near.listener(0), &format!("localhost:{port}"));
    assert_eq!(code, 0);
    let mut served = accept(&server);
    client.write_all(b"by name").unwrap();
    assert_eq!(read_exactly(&mut served, 7), b"by name");
}

#[test]
fn a_reverse_forward_brings_connections_here() {
    let (inner, free) = (TcpListener::bind("127.0.0.1:0").unwrap(), free_address());
    let to = inner.local_addr().unwrap();
    let _world = World::with(&format!("--allow-listen {free}"), &format!("--reverse {free}={to}"));
    let mut client = None;
    at_last("the far gateway listens", || {
        client = TcpStream::connect(free).ok();
        client.is_some()
    });
    let mut client = patient(client.unwrap());
    client.write_all(b"from afar").unwrap();
    let mut served = accept(&inner);
    assert_eq!(read_exactly(&mut served, 9), b"from afar");
    served.write_all(b"back").unwrap();
    drop(served);
    assert_eq!(read_all(&mut client), (b"back".to_vec(), true));
}

#[test]
fn servers_get_the_address_of_the_client() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let config = std::env::temp_dir().join(format!("strandline-gateway-proxy-{}.toml", std::process::id()));
    let access = format!("[[access]]\nallow = [\"{address}\"]\nproxy_protocol = true\n");
    std::fs::write(&config, access).unwrap();
    let world = World::with(&format!("--config {}", config.display()), &format!("--forward 0={address}"));
    std::fs::remove_file(config).unwrap();
    let mut client = patient(TcpStream::connect(world.near.listener(1)).unwrap());
    client.write_all(b"data").unwrap();
    let mut served = accept(&server);
    let header = read_exactly(&mut served, 28);
    let port = client.local_addr().unwrap().port().to_be_bytes();
    assert_eq!(header[12..20], [0x21, 0x11, 0, 12, 127, 0, 0, 1]);
    assert_eq!(header[24..26], port);
    assert_eq!(read_exactly(&mut served, 4), b"data");
}

#[test]
fn others_than_the_clients_are_reset() {
    let world = World::with("", "--socks 0 --from 127.0.0.2");
    let other = TcpStream::connect(world.near.listener(0)).unwrap();
    assert_eq!(read_all(&mut patient(other)), (Vec::new(), false));
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    socket.connect(&world.near.listener(0).into()).unwrap();
    let mut client = patient(socket.into());
    client.write_all(&[5, 1, 0]).unwrap();
    assert_eq!(read_exactly(&mut client, 2), [5, 0]);
}

#[test]
fn datagrams_of_others_than_the_clients_are_dropped() {
    let (server, listen) = (UdpSocket::bind("127.0.0.1:0").unwrap(), free_address());
    let to = server.local_addr().unwrap();
    let world =
        World::with(&format!("--allow-udp {to}"), &format!("--forward udp/{listen}={to} --from 127.0.0.2"));
    let [other, client] = ["127.0.0.1:0", "127.0.0.2:0"].map(|address| UdpSocket::bind(address).unwrap());
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    other.send_to(b"other", listen).unwrap();
    client.send_to(b"client", listen).unwrap();
    let mut room = [0; 16];
    let len = server.recv(&mut room).unwrap();
    assert_eq!(&room[..len], b"client");
    // Flows begin in the order in which datagrams come.
    let status = world.near.status();
    let flows = status["connections"].as_array().unwrap();
    let clients: Vec<_> = flows.iter().map(|flow| flow["client"].as_str().unwrap()).collect();
    assert_eq!(clients, [client.local_addr().unwrap().to_string()]);
}

#[test]
fn urgent_data_arrives_with_the_rest() {
    let world = World::new();
    let (mut client, mut server) = world.connect();
    client.write_all(b"be").unwrap();
    socket2::SockRef::from(&client).send_out_of_band(b"!").unwrap();
    client.write_all(b"hind").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut server), (b"be!hind".to_vec(), true));
    socket2::SockRef::from(&server).send_out_of_band(b"!").unwrap();
    drop(server);
    assert_eq!(read_all(&mut client), (b"!".to_vec(), true));
}

#[test]
fn status_and_metrics_show_connections() {
    let world = World::new();
    let (mut client, mut server) = world.connect();
    client.write_all(&[7; 1000]).unwrap();
    read_exactly(&mut server, 1000);
    at_last("the bytes are counted", || world.near.status()["connections"][0]["bytes_up"] == 1000);
    let status = world.near.status();
    let one = &status["connections"][0];
    assert_eq!((&one["listener"], &one["peer"]), (&"forward".into(), &"far".into()), "{status}");
    assert_eq!(status["peers"][0]["up"], true);
    let metrics = world.near.admin("metrics");
    for line in ["connections 1", "bytes_total{direction=\"up\"} 1000", "peer_up{peer=\"far\"} 1"] {
        assert!(metrics.contains(&format!("strandline_gateway_{line}\n")), "{metrics}");
    }
    assert!(world.near.end(), "it ends although a connection is open");
}

/// Runs `strandline gateway status` with each of these options, at the same time: it lasts for an interval of a second.
fn statuses<const N: usize>(admin: &str, options: [&str; N]) -> [Output; N] {
    let begun = options.map(|option| {
        let mut command = Command::new(PROGRAM);
        command.args(["status", "--admin", admin, option]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    });
    begun.map(|program| program.wait_with_output().unwrap())
}

#[test]
fn the_status_command_shows_connections() {
    let world = World::new();
    let (mut client, mut server) = world.connect();
    client.write_all(&[7; 1000]).unwrap();
    read_exactly(&mut server, 1000);
    at_last("the bytes are counted", || world.near.status()["connections"][0]["bytes_up"] == 1000);
    let [table, json] = statuses(world.near.announced["admin"].as_str().unwrap(), ["--once", "--json"]);
    assert!(table.status.success() && json.status.success());
    let table = String::from_utf8(table.stdout).unwrap();
    for part in ["peer far  up", "1 associations, 1 connections\n", "\nforward ", " 1.0 kB "] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let one = &json["connections"][0];
    assert_eq!((one["bytes_up"].as_u64(), one["up_per_sec"].as_f64()), (Some(1000), Some(0.0)), "{json}");
    // A probe finds out whether a gateway serves.
    let nobody = free_address().to_string();
    let [table, json] = statuses(&nobody, ["--once", "--json"]);
    for output in [table, json] {
        assert!(!output.status.success() && output.stdout.is_empty());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(&nobody) && error.contains("--admin"), "{error}");
    }
}

/// Sends a datagram from a client until it has arrived at the server, which sends it back, and is back: its lifetime
/// may be over on a busy host. Neither socket blocks from here on.
fn exchange(client: &UdpSocket, to: SocketAddr, server: &UdpSocket, data: &[u8]) {
    for socket in [client, server] {
        socket.set_nonblocking(true).unwrap();
    }
    let (mut room, mut waits) = (vec![0; 1 << 16], 0);
    at_last("a datagram passes both ways", || {
        if waits % 50 == 0 {
            client.send_to(data, to).unwrap();
        }
        waits += 1;
        while let Ok((len, from)) = server.recv_from(&mut room) {
            let _ = server.send_to(&room[..len], from);
        }
        std::iter::from_fn(|| client.recv(&mut room).ok().map(|len| room[..len] == *data)).any(|is_it| is_it)
    });
}

#[test]
fn datagrams_pass_both_ways() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let world = World::with(&format!("--allow-udp {address}"), &format!("--forward udp/0={address}"));
    let clients: Vec<UdpSocket> = (0..3).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    for round in 0..3_usize {
        for (number, client) in clients.iter().enumerate() {
            // The largest one is the first of its flow, too.
            let data = bytes([10, 1_000, 65_507][(round + number) % 3], number as u64);
            exchange(client, world.near.listener(1), &server, &data);
        }
    }
    let connections = world.near.status()["connections"].as_array().unwrap().len();
    assert_eq!(connections, clients.len(), "a flow for each client");
}

/// Each client at the far side has a flow, and the near side's server answers it.
#[test]
fn a_reverse_forward_brings_datagrams_here() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (at, to) = (free_address(), server.local_addr().unwrap());
    let mut world = World::with(
        &format!("--allow-listen-udp {at} --admin 127.0.0.1:0"),
        &format!("--reverse udp/{at}={to}"),
    );
    let mut room = vec![0; 1 << 16];
    let first = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    at_last("the far gateway listens", || {
        let _ = first.send_to(b"first", at);
        server.recv_from(&mut room).is_ok()
    });
    let clients: Vec<UdpSocket> = (0..3).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    for round in 0..3_usize {
        for (number, client) in clients.iter().enumerate() {
            let data = bytes([10, 1_000, 60_000][(round + number) % 3], number as u64);
            exchange(client, at, &server, &data);
        }
    }
    let of_listener = |gateway: &Gateway, listener: &str| {
        let status = gateway.status();
        status["connections"].as_array().unwrap().iter().filter(|one| one["listener"] == listener).count()
    };
    assert_eq!(of_listener(&world.far, "listen_udp"), clients.len() + 1, "a flow for each client");
    assert_eq!(of_listener(&world.near, "reverse_udp"), clients.len() + 1);
    // The next process of the far gateway listens there as well, while flows are open.
    let (is_done, text) = world.far.restart();
    assert!(is_done, "{text}");
    let client = &clients[0];
    at_last("datagrams come by the new process", || {
        let _ = client.send_to(b"again", at);
        while let Ok((len, from)) = server.recv_from(&mut room) {
            let _ = server.send_to(&room[..len], from);
        }
        of_listener(&world.far, "listen_udp") > 0 && client.recv(&mut room).is_ok()
    });
}

#[test]
fn listening_for_datagrams_needs_its_own_rule() {
    let at = free_address();
    let world = World::with(&format!("--allow-listen {at}"), &format!("--reverse udp/{at}=127.0.0.1:1"));
    at_last("it is refused", || world.near.log().contains("the peer does not listen"));
    assert!(world.near.log().contains("see its --allow-listen-udp"), "{}", world.near.log());
    assert!(UdpSocket::bind(at).is_ok(), "the far gateway does not listen");
}

#[test]
fn datagrams_need_a_rule_of_their_own() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let world = World::with(&format!("--allow {address}"), &format!("--forward udp/0={address}"));
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(b"datagram", world.near.listener(1)).unwrap();
    at_last("the flow is refused", || {
        world.near.admin("metrics").contains("connection_ends_total{end=\"not_allowed\"} 1\n")
    });
    server.set_nonblocking(true).unwrap();
    assert!(server.recv(&mut [0; 10]).is_err(), "nothing has arrived");
}

/// The far gateway may come to allow a listener, or its port become free, long after it was asked.
#[test]
fn a_reverse_forward_is_asked_for_again() {
    let home = Home::new("reverse");
    let (taken, inner) =
        (TcpListener::bind(free_address()).unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (at, to) = (taken.local_addr().unwrap(), inner.local_addr().unwrap());
    let file = home.write("far.toml", "");
    let far = Gateway::start(&format!("--listen 127.0.0.1:0 --config {file}"));
    let near = Gateway::start(&format!("--peer far={} --reverse {at}={to}", far.listens()));
    at_last("it is refused", || near.log().contains("it is asked again"));
    home.write("far.toml", &format!("[[access]]\nallow_listen = [\"{at}\"]\n"));
    far.hang_up();
    at_last("the port is taken", || near.log().matches("it is asked again").count() >= 2);
    // It accepts no client of the far gateway, whoever still has it.
    assert!(stop_listening(&taken));
    drop(taken);
    let mut client = None;
    at_last("the far gateway listens", || {
        client = TcpStream::connect(at).ok();
        client.is_some()
    });
    client.unwrap().write_all(b"late").unwrap();
    assert_eq!(read_exactly(&mut accept(&inner), 4), b"late");
}

/// UDP sockets that something else has shut down are replaced, and reported until they are: one for clients, and one
/// that the far gateway has for the near one. Flows go on.
#[test]
fn failed_udp_sockets_listen_again() {
    let (server, forward, reverse) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), free_address(), free_address());
    let to = server.local_addr().unwrap();
    let far =
        format!("--listen 127.0.0.1:0 --allow-udp {to} --allow-listen-udp {reverse} --admin 127.0.0.1:0");
    let far = Gateway::start(&far);
    let peer = format!("--peer far={} --admin 127.0.0.1:0", far.listens());
    let near = Gateway::start(&format!("{peer} --forward udp/{forward}={to} --reverse udp/{reverse}={to}"));
    std::thread::spawn(move || {
        let mut room = [0; 100];
        while let Ok((len, source)) = server.recv_from(&mut room) {
            let _ = server.send_to(&room[..len], source);
        }
    });
    let client = |at: SocketAddr| {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(at).unwrap();
        client.set_nonblocking(true).unwrap();
        client
    };
    // Errors are those of datagrams that came while no socket had the address.
    let answers = |client: &UdpSocket, number: u8| {
        let _ = client.send(&[number]);
        let mut room = [0; 100];
        std::iter::repeat_with(|| client.recv(&mut room).map(|_| room[0]))
            .take_while(
                |received| !matches!(received, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock),
            )
            .any(|received| received.is_ok_and(|received| received == number))
    };
    let is_failed = || near.status()["listeners"][0]["failed"] == true;
    let (forwarded, reversed) = (client(forward), client(reverse));
    at_last("the near gateway passes datagrams", || answers(&forwarded, 1));
    at_last("the far gateway passes datagrams", || answers(&reversed, 1));
    // Another socket takes the address meanwhile.
    let take = |gateway: &Gateway, at: SocketAddr| {
        let mut other = None;
        at_last("the address is taken", || {
            shut_down(gateway.pid(), at);
            other = UdpSocket::bind(at).ok();
            other.is_some()
        });
        other
    };
    let other = take(&near, forward);
    at_last("it is reported", is_failed);
    at_last("the log has the error", || near.log().contains("receiving datagrams failed"));
    drop(other);
    at_last("datagrams pass again", || answers(&forwarded, 2));
    assert!(!is_failed());
    let other = take(&far, reverse);
    at_last("it is noticed", || far.log().contains("receiving datagrams failed"));
    at_last("the near gateway knows", || near.status()["reverses"][0]["state"] == "failed");
    at_last("the log of the near gateway has it", || near.log().contains("the peer's socket has failed"));
    drop(other);
    at_last("the far gateway passes datagrams again", || answers(&reversed, 2));
    for (gateway, listener) in [(&near, "udp"), (&far, "listen_udp")] {
        let flows = format!("strandline_gateway_connections_total{{listener=\"{listener}\"}} 1\n");
        assert!(gateway.admin("metrics").contains(&flows), "{listener}: {}", gateway.admin("metrics"));
    }
}

/// A peer of which nothing is needed.
#[test]
fn no_association_is_set_up_for_direct_connections() {
    let (server, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let (address, listen) = (server.local_addr().unwrap(), udp.local_addr().unwrap());
    let near = Gateway::start(&format!(
        "--peer far={listen} --map never --map never=127.0.0.0/8:* --forward 0={address} --admin 127.0.0.1:0"
    ));
    let mut client = patient(TcpStream::connect(near.listener(0)).unwrap());
    client.write_all(b"direct").unwrap();
    let mut served = accept(&server);
    assert_eq!(read_exactly(&mut served, 6), b"direct");
    assert_eq!(near.status()["connections"][0]["mapping"], "rule");
    // A set-up takes less than this.
    udp.set_read_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
    assert!(udp.recv(&mut [0; 2000]).is_err(), "a packet to the peer");
}

/// Connections that nobody redirected don't fill the log.
#[test]
fn the_log_seldom_tells_of_unredirected_connections() {
    let near = Gateway::start("--peer far=127.0.0.1:9 --redirect 0 --admin 127.0.0.1:0");
    for _ in 0..30 {
        let mut client = patient(TcpStream::connect(near.listener(0)).unwrap());
        assert!(client.read(&mut [0]).is_err(), "it is reset");
    }
    let counted = "strandline_gateway_connection_ends_total{end=\"malformed\"} 30\n";
    assert!(near.admin("metrics").contains(counted), "{}", near.admin("metrics"));
    crate::common::at_last("it is logged", || near.log().contains("was not redirected"));
    assert_eq!(near.log().matches("was not redirected").count(), 1);
}

/// Sockets that something else has shut down listen again, and are reported until they do: those for clients, the
/// admin address, and one that the far gateway has for the near one.
#[test]
fn failed_listeners_listen_again() {
    let (server, reverse) = (TcpListener::bind("127.0.0.1:0").unwrap(), free_address());
    let (to, forward) = (server.local_addr().unwrap(), free_address());
    let far = Gateway::start(&format!("--listen 127.0.0.1:0 --allow {to} --allow-listen {reverse}"));
    let peer = format!("--peer far={} --admin 127.0.0.1:0", far.listens());
    let near = Gateway::start(&format!("{peer} --forward {forward}={to} --reverse {reverse}={to}"));
    let connects = |at: SocketAddr| {
        TcpStream::connect(at).is_ok_and(|client| {
            let mut client = patient(client);
            let is_sent = client.write_all(b"x").is_ok();
            is_sent && read_exactly(&mut accept(&server), 1) == b"x"
        })
    };
    let is_failed = || {
        let metrics = near.admin("metrics");
        let status = near.status()["listeners"][0]["failed"] == true;
        assert!(metrics.contains("strandline_gateway_listeners_failed"));
        (status, metrics.contains("strandline_gateway_listeners_failed 1\n"))
    };
    assert!(connects(forward));
    assert_eq!(is_failed(), (false, false));
    // Another socket takes the address meanwhile.
    let mut other = None;
    at_last("the address is taken", || {
        shut_down(near.pid(), forward);
        other = TcpListener::bind(forward).ok();
        other.is_some()
    });
    at_last("it is reported", || is_failed() == (true, true));
    at_last("the log has the error", || near.log().contains("accepting TCP connections failed"));
    drop(other);
    at_last("it listens again", || is_failed() == (false, false));
    assert!(connects(forward));
    let admin: SocketAddr = near.announced["admin"].as_str().unwrap().parse().unwrap();
    assert!(shut_down(near.pid(), admin));
    at_last("the admin address answers again", || TcpStream::connect(admin).is_ok());
    assert_eq!(is_failed(), (false, false));
    at_last("the far gateway listens", || TcpStream::connect(reverse).is_ok());
    let _ = accept(&server);
    assert!(shut_down(far.pid(), reverse));
    at_last("the far gateway listens again", || TcpStream::connect(reverse).is_ok());
    let _ = accept(&server);
    assert!(connects(reverse));
}

#[test]
fn a_gateway_says_where_peers_are_to_listen() {
    let mut gateway = Command::new(PROGRAM)
        .args(["--peer", "far=127.0.0.1:1", "--insecure", "--admin", "127.0.0.1:0"])
        .args(["--reverse", "10.2.0.1:2222=127.0.0.1:22", "--reverse", "udp/53=127.0.0.1:5353"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut told = Vec::new();
    for line in BufReader::new(gateway.stdout.take().unwrap()).lines().map(Result::unwrap) {
        let is_last = line.starts_with("  admin");
        told.push(line);
        if is_last {
            break;
        }
    }
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    for expected in ["10.2.0.1:2222 at far, to 127.0.0.1:22", "udp/127.0.0.1:53 at far, to 127.0.0.1:5353"] {
        assert!(told.contains(&format!("  reverse       {expected}")), "{told:?}");
    }
}
