//! Which connections become streams, and which go straight over TCP.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};

use crate::common::{
    Gateway, World, accept, accept_with_data, at_last, bytes, free_address, patient, read_exactly,
};
use crate::failures::socks;
use crate::slow_path::slow_path;

/// Connects through a listener, and sends a word, which arrives once. Returns where the connection goes, and why.
fn pass(near: &Gateway, listener: usize, server: &TcpListener) -> (bool, String) {
    let mut client = patient(TcpStream::connect(near.listener(listener)).unwrap());
    client.write_all(b"word").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut served = accept_with_data(server);
    let mut word = Vec::new();
    served.read_to_end(&mut word).unwrap();
    assert_eq!(word, b"word");
    let status = near.status();
    let connection = status["connections"].as_array().unwrap().last().unwrap();
    (connection["direct"].as_bool().unwrap(), connection["mapping"].as_str().unwrap().to_owned())
}

/// Returns the server's address by name. Round-trip times are known of addresses only: on a busy host the way by
/// two processes takes some milliseconds, and connections to an address on the same host go directly (`nearer`).
fn by_name(server: &TcpListener) -> String {
    format!("localhost:{}", server.local_addr().unwrap().port())
}

fn found(direct: bool, reason: &str) -> (bool, String) {
    (direct, reason.to_owned())
}

#[test]
fn without_a_gateway_connections_are_direct() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let (listen, to) = (free_address(), by_name(&server));
    let near = Gateway::start(&format!(
        "--peer far={listen} --fallback-tcp --map auto=localhost:* --forward 0={to} --admin 127.0.0.1:0"
    ));
    let first = pass(&near, 0, &server);
    assert!(first == found(true, "first_set_up") || first == found(true, "no_association"), "{first:?}");
    at_last("the set-up has failed", || pass(&near, 0, &server) == found(true, "no_association"));
    assert_eq!(near.status()["peers"][0]["reason"], "no_association");
    let _far = Gateway::start(&format!("--listen {listen} --allow {to}"));
    at_last("connections are streams again", || pass(&near, 0, &server) == found(false, "open_window"));
    let metrics = near.admin("metrics");
    let counted = "strandline_gateway_mapping_total{decision=\"stream\",reason=\"open_window\"} ";
    assert!(metrics.contains(counted), "{metrics}");
}

/// A server on the gateway's own host is another one than the far side's at the same address.
#[test]
fn own_addresses_are_never_a_fallback() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let near = Gateway::start(&format!(
        "--peer far=127.0.0.1:9 --fallback-tcp --forward 0={address} --socks 0 --admin 127.0.0.1:0"
    ));
    // By address, and by a name that stands for it.
    let (_, code) = crate::failures::socks(near.listener(0), &address.to_string());
    assert_eq!(code, 1, "no association");
    let (_, code) = crate::failures::socks(near.listener(0), &format!("localhost:{}", address.port()));
    assert_eq!(code, 2, "not allowed");
    let mut client = patient(TcpStream::connect(near.listener(1)).unwrap());
    client.write_all(b"for the far side").unwrap();
    assert!(client.read(&mut [0; 1]).unwrap_or_default() == 0);
    server.set_nonblocking(true).unwrap();
    assert!(server.accept().is_err());
}

#[test]
fn rules_map_destinations() {
    let world = World::with(
        "",
        "--fallback-tcp --map always=127.0.0.9:* --map never=127.0.0.0/8:* --map auto --socks 0",
    );
    let address = world.server.local_addr().unwrap();
    at_last("there is an association", || world.near.status()["peers"][0]["up"] == true);
    assert_eq!(pass(&world.near, 1, &world.server), found(true, "rule"));
    let (stream, code) = crate::failures::socks(world.near.listener(0), &address.to_string());
    assert_eq!(code, 0);
    assert_eq!(world.near.status()["connections"].as_array().unwrap().last().unwrap()["mapping"], "rule");
    drop((stream, world.accept()));
    // Nothing listens there, which the far gateway finds out: it does not allow the destination either.
    let (_, code) = crate::failures::socks(world.near.listener(0), "127.0.0.9:1");
    assert_eq!(code, 2, "it asked the far gateway");
}

/// A far gateway that answers no more is done without, as long as it doesn't.
#[test]
fn silent_paths_are_avoided() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = by_name(&server);
    let far = Gateway::start(&format!("--listen {} --allow {to}", free_address()));
    let near = Gateway::start(&format!(
        "--peer far={} --fallback-tcp --map auto=localhost:* --forward 0={to} --admin 127.0.0.1:0",
        far.listens()
    ));
    let passes = || pass(&near, 0, &server);
    at_last("connections are streams", || passes() == found(false, "open_window"));
    far.stop(true);
    at_last("the far gateway is silent", || near.status()["peers"][0]["reason"] == "path_silent");
    assert_eq!(passes(), found(true, "path_silent"));
    far.stop(false);
    at_last("connections are streams again", || passes() == found(false, "open_window"));
}

/// A direct connection that can't be made becomes a stream, and the next one does at once.
#[test]
fn failed_direct_connections_become_streams() {
    let world = World::with("--allow 127.0.0.1:1", "--fallback-tcp --map auto=127.0.0.0/8:* --socks 0");
    at_last("there is an association", || world.near.status()["peers"][0]["up"] == true);
    world.far.stop(true);
    at_last("the far gateway is silent", || world.near.status()["peers"][0]["reason"] == "path_silent");
    let near = world.near.listener(0);
    let refused = std::thread::spawn(move || crate::failures::socks(near, "127.0.0.1:1").1);
    at_last("it waits for the stream", || {
        let status = world.near.status();
        let open = status["connections"].as_array().unwrap();
        open.iter().any(|one| one["mapping"] == "direct_failed" && one["direct"] == false)
    });
    world.far.stop(false);
    assert_eq!(refused.join().unwrap(), 5, "the far gateway's answer");
}

/// Losses keep the window of CUBIC small, of which the far gateway reports.
#[test]
fn small_windows_get_further_associations() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let far = Gateway::start(&format!(
        "--listen 127.0.0.1:0 --allow {address} --congestion cubic --admin 127.0.0.1:0"
    ));
    let path = slow_path(far.listens().parse().unwrap(), 30);
    let near = Gateway::start(&format!(
        "--peer far={path} --fallback-tcp --map auto=127.0.0.0/8:* --contexts-max 2 --forward 0={address} \
         --congestion cubic --admin 127.0.0.1:0"
    ));
    at_last("there is an association", || near.status()["peers"][0]["up"] == true);
    let open: Vec<(TcpStream, TcpStream)> = (0..4)
        .map(|at| {
            let client = patient(TcpStream::connect(near.listener(0)).unwrap());
            let served = accept(&server);
            let mut sender = served.try_clone().unwrap();
            std::thread::spawn(move || while sender.write_all(&bytes(256 << 10, at)).is_ok() {});
            let mut reader = client.try_clone().unwrap();
            std::thread::spawn(move || while reader.read(&mut [0; 65536]).is_ok_and(|len| len > 0) {});
            (client, served)
        })
        .collect();
    at_last("a further association is asked for", || pass(&near, 0, &server).1 == "more_contexts");
    at_last("it is there", || far.status()["associations"].as_array().unwrap().len() == 2);
    // By either route.
    pass(&near, 0, &server);
    let peer = near.status()["peers"][0].clone();
    assert_eq!((peer["contexts"].as_u64(), peer["contexts_max"].as_u64()), (Some(2), Some(2)), "{peer}");
    for (client, served) in open {
        for end in [client, served] {
            let _ = end.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Data on its way in both directions survives a race: it goes by one route only.
#[test]
fn races_send_nothing_twice() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let far = Gateway::start(&format!("--listen 127.0.0.1:0 --allow {address}"));
    for _ in 0..5 {
        let near = Gateway::start(&format!(
            "--peer far={} --fallback-tcp --map auto=127.0.0.0/8:* --forward 0={address} --admin 127.0.0.1:0",
            far.listens()
        ));
        let mut client = patient(TcpStream::connect(near.listener(0)).unwrap());
        client.write_all(b"once").unwrap();
        // The other one, if it was made, brings nothing.
        let mut served = accept_with_data(&server);
        assert_eq!(read_exactly(&mut served, 4), b"once");
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(served.read(&mut [0; 1]).unwrap(), 0);
        server.set_nonblocking(true).unwrap();
        while let Ok((mut other, _)) = server.accept() {
            // Nothing was sent on it.
            assert_eq!(other.read(&mut [0; 1]).unwrap_or_default(), 0);
        }
        server.set_nonblocking(false).unwrap();
    }
}

/// An address of the host that no rule lists is refused where nothing becomes a stream.
#[test]
fn never_leads_to_no_stream() {
    let world = World::with("", "--map never --socks 0 --fallback-tcp");
    let address = world.server.local_addr().unwrap();
    assert_eq!(socks(world.near.listener(0), &address.to_string()).1, 2, "not allowed");
    let metrics = world.near.admin("metrics");
    assert!(metrics.contains("mapping_total{decision=\"direct\",reason=\"rule\"} 1"), "{metrics}");
}

/// Metrics count direct connections while they last, and never fall.
#[test]
fn direct_connections_are_counted_as_they_go() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let near = Gateway::start(&format!(
        "--peer far={} --map never --map never=127.0.0.0/8:* --forward 0={address} --admin 127.0.0.1:0",
        free_address()
    ));
    let mut client = patient(TcpStream::connect(near.listener(0)).unwrap());
    client.write_all(&bytes(5000, 1)).unwrap();
    let mut served = accept(&server);
    read_exactly(&mut served, 5000);
    served.write_all(&bytes(7000, 2)).unwrap();
    read_exactly(&mut client, 7000);
    at_last("both directions are counted", || {
        let one = near.status()["connections"][0].clone();
        (one["bytes_up"].as_u64(), one["bytes_down"].as_u64()) == (Some(5000), Some(7000))
    });
}

/// A connection counts once it is known where it goes.
#[test]
fn counters_of_mapping_never_fall() {
    // Neither the peer nor the server answers.
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = crate::programs::Silent::start();
    let near = Gateway::start(&format!(
        "--peer far={} --fallback-tcp --map auto=127.0.0.0/8:* --forward 0={} --admin 127.0.0.1:0",
        peer.local_addr().unwrap(),
        silent.address
    ));
    let client = TcpStream::connect(near.listener(0)).unwrap();
    at_last("it has begun", || near.status()["connections"][0]["mapping"] == "first_set_up");
    let metrics = near.admin("metrics");
    assert!(!metrics.contains("mapping_total{"), "what is counted would be taken back: {metrics}");
    drop((client, silent));
}

/// The first set-up has a moment of its own, from its beginning on, before connections go directly: only
/// those that come in it wait for its end.
#[test]
fn the_first_set_up_delays_nothing_twice() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, silent) = (server.local_addr().unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    // An attempt lasts for 5 s. If each of these waited for the moment of 250 ms, it would be over before the last one.
    at_last("the attempt outlasts many connections", || {
        let near = Gateway::start(&format!(
            "--peer far={} --fallback-tcp --map auto=127.0.0.0/8:* --forward 0={address} --admin 127.0.0.1:0",
            silent.local_addr().unwrap()
        ));
        // It may be over already on a busy host.
        (0..25).all(|_| pass(&near, 0, &server) == found(true, "first_set_up"))
    });
}
