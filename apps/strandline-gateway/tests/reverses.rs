//! Listeners that a near gateway has at its peer: what status and metrics say of them, and how they end.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::{
    Gateway, Home, PROGRAM, accept, at_last, free_address, log_lines, patient, read_all, read_exactly,
    shut_down,
};
use crate::datagrams::metric;

/// Starts a gateway whose log has all of its lines.
fn talkative(options: &str) -> Gateway {
    let mut command = Command::new(PROGRAM);
    command.args(options.split_whitespace()).env("XDG_CONFIG_HOME", Path::new("/nonexistent"));
    command.env("RUST_LOG", "strandline_gateway=info,strandline_tls=info");
    Gateway::spawn(command)
}

/// Passes bytes from a client at an address to a server.
fn passes(at: SocketAddr, server: &TcpListener) -> (TcpStream, TcpStream) {
    let mut client = patient(TcpStream::connect(at).unwrap());
    client.write_all(b"hello").unwrap();
    let mut served = accept(server);
    assert_eq!(read_exactly(&mut served, 5), b"hello");
    (client, served)
}

/// The states of what a near gateway asks for.
fn states(near: &Gateway) -> Vec<(Value, Value)> {
    let status = near.status();
    let all = status["reverses"].as_array().unwrap();
    all.iter().map(|one| (one["state"].clone(), one["reason"].clone())).collect()
}

#[test]
fn the_status_has_listeners_at_peers() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let [tcp, refused, udp] = [free_address(), free_address(), free_address()];
    let allow = format!("--allow-listen {tcp} --allow-listen-udp {udp}");
    let mut far = talkative(&format!("--listen 127.0.0.1:0 --admin 127.0.0.1:0 {allow}"));
    let near = Gateway::start(&format!(
        "--peer far={} --reverse {tcp}={to} --reverse {refused}={to} --reverse udp/{udp}={to} --admin 127.0.0.1:0",
        far.listens()
    ));
    let listening = (json!("listening"), Value::Null);
    let expected = [listening.clone(), (json!("refused"), json!("not_allowed")), listening];
    at_last("the near gateway says what the peer does", || states(&near) == expected);
    let down = || metric(&near, "reverses_down{peer=\"far\"}");
    assert_eq!(down(), 1);
    let mut shown = Command::new(PROGRAM);
    let shown = shown.args(["status", "--once", "--admin", near.announced["admin"].as_str().unwrap()]);
    let shown = String::from_utf8(shown.output().unwrap().stdout).unwrap();
    for line in [
        format!("reverse {tcp} at far  listening\n"),
        format!("reverse {refused} at far  refused: not_allowed\n"),
        format!("reverse_udp {udp} at far  listening\n"),
    ] {
        assert!(shown.contains(&line), "{line}: {shown}");
    }
    let listed = far.status()["listeners"].clone();
    let find = |listener: &str| {
        let mut all = listed.as_array().unwrap().iter();
        all.find(|one| one["listener"] == listener).map(|one| one["listen"].clone())
    };
    assert_eq!([find("listen"), find("listen_udp")], [Some(json!(tcp)), Some(json!(udp))], "{listed}");
    far.kill();
    at_last("the listeners are gone", || down() == 3);
    assert!(states(&near).iter().all(|(state, _)| *state == "waiting"), "{:?}", states(&near));
}

/// A listener for a peer whose socket something else shuts down is reported, and listens again by itself.
#[test]
fn listeners_for_peers_listen_again() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let (to, at) = (server.local_addr().unwrap(), free_address());
    let far = talkative(&format!("--listen 127.0.0.1:0 --admin 127.0.0.1:0 --allow-listen {at}"));
    let options = format!("--peer far={} --reverse {at}={to} --admin 127.0.0.1:0", far.listens());
    let near = Gateway::start(&options);
    let listening = [(json!("listening"), Value::Null)];
    at_last("the far gateway listens", || states(&near) == listening);
    drop(passes(at, &server));
    // Another socket takes the address meanwhile.
    let mut other = None;
    at_last("the address is taken", || {
        shut_down(far.pid(), at);
        other = TcpListener::bind(at).ok();
        other.is_some()
    });
    at_last("it is reported", || metric(&far, "listeners_failed") == 1);
    at_last("at the near gateway, too", || states(&near) == [(json!("failed"), Value::Null)]);
    assert_eq!(metric(&near, "reverses_down{peer=\"far\"}"), 1);
    assert_eq!(far.status()["listeners"][0]["failed"], true);
    at_last("the log has the error", || far.log().contains("accepting TCP connections failed"));
    drop(other);
    at_last("it listens again", || metric(&far, "listeners_failed") == 0);
    at_last("the near gateway knows", || states(&near) == listening);
    drop(passes(at, &server));
    // It is the same one: the peer was not asked again.
    let count = far.log().matches("listening for a peer").count();
    assert_eq!((count, states(&near)), (1, listening.to_vec()), "{}", far.log());
}

/// Connections that wait to be accepted when a listener for a peer ends are served.
#[test]
fn waiting_clients_outlast_a_listener() {
    const COUNT: usize = 64;
    let server = crate::common::listener();
    let (to, at) = (server.local_addr().unwrap(), free_address());
    let far = talkative(&format!("--listen 127.0.0.1:0 --admin 127.0.0.1:0 --allow-listen {at}"));
    let peer = format!("[[peer]]\nname = \"far\"\naddresses = [\"{}\"]\n", far.listens());
    let reverse = format!("[[reverse]]\nlisten = \"{at}\"\nto = \"{to}\"\n");
    let home = Home::new("waiting-clients");
    let file = home.write("near.toml", &format!("{peer}{reverse}"));
    let near = Gateway::start(&format!("--config {file} --admin 127.0.0.1:0"));
    at_last("the far gateway listens", || states(&near) == [(json!("listening"), Value::Null)]);
    // It keeps the association.
    let open = passes(at, &server);
    far.stop(true);
    let mut clients: Vec<_> = (0..COUNT).map(|_| patient(TcpStream::connect(at).unwrap())).collect();
    home.write("near.toml", &peer);
    near.hang_up();
    at_last("the listener is not asked for any more", || states(&near).is_empty());
    far.stop(false);
    for client in &mut clients {
        client.write_all(b"waited").unwrap();
    }
    let serving = std::thread::spawn(move || {
        for _ in 0..COUNT {
            let mut served = accept(&server);
            assert_eq!(read_exactly(&mut served, 6), b"waited");
            served.write_all(b"served").unwrap();
        }
    });
    for client in &mut clients {
        assert_eq!(read_all(client), (b"served".to_vec(), true));
    }
    serving.join().unwrap();
    at_last("the log says why it ended", || far.log().contains("listening for a peer ended"));
    assert_eq!(far.log().matches("listening for a peer ended").count(), 1, "{}", far.log());
    assert!(far.log().contains("the peer does not ask for it any more"), "{}", far.log());
    drop(open);
}

/// Connections at a listener for a peer that are beyond the peer's limit are counted, and in the access log.
#[test]
fn refused_connections_are_counted() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let (to, at) = (server.local_addr().unwrap(), free_address());
    let home = Home::new("refused");
    let limits = home.write("far.toml", "[limits]\nconnections_max = 1\n");
    let log = home.write("access.log", "");
    let far = Gateway::start(&format!(
        "--listen 127.0.0.1:0 --admin 127.0.0.1:0 --allow {to} --allow-listen {at} --config {limits} --access-log {log}"
    ));
    let near = Gateway::start(&format!(
        "--peer far={} --forward 0={to} --reverse {at}={to} --admin 127.0.0.1:0",
        far.listens()
    ));
    at_last("the far gateway listens", || states(&near) == [(json!("listening"), Value::Null)]);
    let open = passes(at, &server);
    let mut refused = patient(TcpStream::connect(at).unwrap());
    assert_eq!(read_all(&mut refused), (Vec::new(), false));
    let mut refused = patient(TcpStream::connect(near.listener(0)).unwrap());
    assert_eq!(read_all(&mut refused), (Vec::new(), false));
    assert_eq!(metric(&far, "connection_ends_total{end=\"limit\"}"), 2);
    at_last("the access log has them", || log_lines(&log).len() == 2);
    for listener in ["listen", "onward"] {
        let lines = log_lines(&log);
        let found = lines.iter().filter(|line| line["listener"] == listener && line["end"] == "limit");
        assert_eq!(found.count(), 1, "{listener}: {lines:?}");
    }
    drop(open);
}

/// A flow that the far gateway has no room for ends as such on both sides.
#[test]
fn flows_beyond_the_far_limit_are_refused() {
    let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let home = Home::new("far-flows");
    let limits = home.write("far.toml", "[limits]\nconnections_max = 4\n");
    let far = Gateway::start(&format!(
        "--listen 127.0.0.1:0 --admin 127.0.0.1:0 --allow-udp {to} --config {limits}"
    ));
    let near =
        Gateway::start(&format!("--peer far={} --forward udp/0={to} --admin 127.0.0.1:0", far.listens()));
    let [first, second] = [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    first.send_to(b"first", near.listener(0)).unwrap();
    let mut room = [0; 16];
    server.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    assert_eq!(server.recv(&mut room).unwrap(), 5);
    second.send_to(b"second", near.listener(0)).unwrap();
    for gateway in [&near, &far] {
        at_last("the second flow ends", || metric(gateway, "connection_ends_total{end=\"flow_limit\"}") == 1);
        assert_eq!(metric(gateway, "connection_ends_total{end=\"limit\"}"), 0);
    }
    first.send_to(b"again", near.listener(0)).unwrap();
    assert_eq!((server.recv(&mut room).unwrap(), &room[..5]), (5, &b"again"[..]));
}
