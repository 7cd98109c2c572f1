//! Encrypted stacks: on real sockets in real time, and in the in-memory network.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{pattern, recv_whole};
use strandline::encryption::{
    Encryption, Fingerprint, Identity, KnownHost, KnownHosts, KnownHostsFile, Options, Trust,
    create_identity, read_identity,
};
use strandline::memory::Network;
use strandline::{
    Association, AssociationConfig, ConnectError, Ended, Endpoint, Listener, Peer, RawOptions, SendInfo,
    Stack, StackBuilder,
};
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::timeout;

fn identity() -> Identity {
    Identity::from_pem(&Identity::generate("test").unwrap()).unwrap()
}

/// Encryptions of two sides that trust each other, the server's second.
fn both() -> (Encryption, Encryption) {
    let (client, server) = (identity(), identity());
    let (client_key, server_key) = (client.fingerprint(), server.fingerprint());
    (
        Encryption::new(client, Trust::nobody().pin(server_key)),
        Encryption::new(server, Trust::nobody().pin(client_key)),
    )
}

fn builder() -> StackBuilder {
    let config = AssociationConfig {
        rto_initial: Duration::from_millis(200),
        rto_min: Duration::from_millis(100),
        path_retrans_max: 1,
        ..AssociationConfig::default()
    };
    Stack::builder().association(config)
}

fn udp(encryption: Encryption, shards: usize, address: &str) -> Stack {
    builder().encryption(encryption).shards(shards).udp(address.parse().unwrap()).unwrap()
}

fn port_of(stack: &Stack) -> u16 {
    stack.local_addr().unwrap().port()
}

fn at(stack: &Stack, port: u16) -> Peer {
    Peer::encapsulated(stack.local_addr().unwrap(), port)
}

async fn pair(here: &Stack, there: &Stack, to: Peer) -> (Association, Association) {
    let listener = Listener::bind(there, to.port()).unwrap();
    let client = Association::connect(here, to).await.unwrap();
    (client, listener.accept().await.unwrap())
}

/// Sends messages in both directions at once, and checks what arrives.
async fn transfer(client: &Association, server: &Association, messages: u8) {
    let send = async |from: &Association| {
        for number in 0..messages {
            from.send_bytes(pattern(100_000, number), SendInfo::default()).await.unwrap();
        }
    };
    let recv = async |at: &Association| {
        for number in 0..messages {
            assert!(recv_whole(at).await.unwrap() == pattern(100_000, number), "message {number}");
        }
    };
    tokio::join!(send(client), send(server), recv(client), recv(server));
}

/// Carries datagrams between a client and a server, as a NAT does: those of the client leave from a socket of its own.
struct Relay {
    /// What the client sends to.
    inside: Arc<UdpSocket>,
    outside: watch::Sender<Arc<UdpSocket>>,
    cut: Arc<AtomicBool>,
    /// Datagrams carried.
    carried: Arc<AtomicU64>,
}

impl Relay {
    async fn start(inside: &str, outside: &str, server: SocketAddr) -> Self {
        let inside = Arc::new(UdpSocket::bind(inside).await.unwrap());
        let (sender, mut current) = watch::channel(Arc::new(UdpSocket::bind(outside).await.unwrap()));
        let cut = Arc::new(AtomicBool::new(false));
        let carried = Arc::new(AtomicU64::new(0));
        let (socket, is_cut, count) = (Arc::clone(&inside), Arc::clone(&cut), Arc::clone(&carried));
        tokio::spawn(async move {
            let mut client = None;
            let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
            loop {
                let out = Arc::clone(&current.borrow_and_update());
                tokio::select! {
                    Ok((len, from)) = socket.recv_from(&mut up) => {
                        client = Some(from);
                        if !is_cut.load(Ordering::Relaxed) {
                            let _ = out.send_to(&up[..len], server).await;
                        }
                    }
                    Ok((len, _)) = out.recv_from(&mut down) => {
                        if let Some(client) = client.filter(|_| !is_cut.load(Ordering::Relaxed)) {
                            let _ = socket.send_to(&down[..len], client).await;
                        }
                    }
                    changed = current.changed() => if changed.is_err() { return },
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { inside, outside: sender, cut, carried }
    }

    fn address(&self) -> SocketAddr {
        self.inside.local_addr().unwrap()
    }

    /// Gives the client another address on the outside.
    async fn rebind(&self, outside: &str) {
        self.outside.send(Arc::new(UdpSocket::bind(outside).await.unwrap())).unwrap();
    }
}

#[tokio::test]
async fn data_travels_both_ways() {
    let (client, server) = both();
    let (here, there) = (udp(client, 1, "127.0.0.1:0"), udp(server, 1, "127.0.0.1:0"));
    let (client, server) = pair(&here, &there, at(&there, 7)).await;
    transfer(&client, &server, 20).await;
    assert_eq!(client.paths()[0].mtu, 16_384, "a record's limit, on the loopback interface");
    assert!(client.status().unwrap().sends_zero_checksum, "DTLS protects packets better than the checksum");
    assert_eq!(client.shutdown().await, Ended::ShutDown);
    assert!(there.stats().out_of_the_blue <= 1, "a SHUTDOWN COMPLETE may be repeated after a probe");
    assert_eq!(there.encryption_stats().unwrap().established, 1);
}

#[tokio::test]
async fn ipv6_is_encrypted_too() {
    let (client, server) = both();
    let (here, there) = (udp(client, 1, "[::1]:0"), udp(server, 1, "[::]:0"));
    let to = SocketAddr::new("::1".parse().unwrap(), there.local_addr().unwrap().port());
    let (client, server) = pair(&here, &there, Peer::encapsulated(to, 7)).await;
    transfer(&client, &server, 3).await;
}

#[tokio::test]
async fn shards_get_the_datagrams_of_their_connections() {
    for (client_shards, server_shards) in [(1, 4), (4, 4), (2, 3)] {
        let (client, server) = both();
        let here = udp(client, client_shards, "127.0.0.1:0");
        let there = udp(server, server_shards, "127.0.0.1:0");
        let listener = Listener::bind(&there, 7).unwrap();
        let mut shards = HashSet::new();
        for _ in 0..client_shards * 4 {
            let client = Association::connect(&here, at(&there, 7)).await.unwrap();
            let server = listener.accept().await.unwrap();
            shards.insert(client.id().shard());
            transfer(&client, &server, 1).await;
        }
        assert_eq!(shards.len(), client_shards);
        for stack in [&here, &there] {
            let handed_over: u64 = stack.shard_stats().iter().map(|shard| shard.handed_over).sum();
            assert_eq!(handed_over, 0, "the kernel steers by the connection ID");
        }
    }
}

#[tokio::test]
async fn transfers_survive_nat_rebinding() {
    let (client, server) = both();
    let (here, there) = (udp(client, 1, "127.0.0.1:0"), udp(server, 2, "127.0.0.1:0"));
    let relay = Relay::start("127.0.0.1:0", "127.0.0.1:0", there.local_addr().unwrap()).await;
    let (client, server) = pair(&here, &there, Peer::encapsulated(relay.address(), 7)).await;
    let rebinding = async {
        for host in 2..6 {
            let carried = relay.carried.load(Ordering::Relaxed);
            while relay.carried.load(Ordering::Relaxed) < carried + 200 {
                tokio::task::yield_now().await;
            }
            // Another port at first, then other addresses.
            relay.rebind(&format!("127.0.0.{}:0", host / 2)).await;
        }
    };
    let all = async { tokio::join!(transfer(&client, &server, 100), rebinding) };
    timeout(Duration::from_secs(60), all).await.unwrap();
    assert_eq!(client.shutdown().await, Ended::ShutDown);
}

#[tokio::test]
async fn a_second_path_takes_over() {
    let (client, server) = both();
    let here = builder().local_addresses([[127, 0, 0, 5], [127, 0, 0, 6]]).encryption(client);
    let here = here.udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let there = builder().local_addresses([[127, 0, 0, 3], [127, 0, 0, 4]]).encryption(server);
    let there = there.udp("127.0.0.2:0".parse().unwrap()).unwrap();
    let to = there.local_addr().unwrap();
    let first = Relay::start("127.0.0.3:0", "127.0.0.5:0", to).await;
    let (port, outside) = (first.address().port(), first.outside.borrow().local_addr().unwrap().port());
    let second = Relay::start(&format!("127.0.0.4:{port}"), &format!("127.0.0.6:{outside}"), to).await;
    let (client, server) = pair(&here, &there, Peer::encapsulated(first.address(), 7)).await;
    transfer(&client, &server, 5).await;
    assert_eq!(client.paths().len(), 2);
    first.cut.store(true, Ordering::Relaxed);
    let transfer = transfer(&client, &server, 5);
    timeout(Duration::from_secs(60), transfer).await.unwrap();
    assert!(second.carried.load(Ordering::Relaxed) > 100);
    assert_eq!(here.encryption_stats().unwrap().connections, 1, "one connection carries both paths");
}

#[tokio::test]
async fn an_unknown_key_ends_the_attempt() {
    let ((client, _), (_, server)) = (both(), both());
    let (here, there) = (udp(client, 1, "127.0.0.1:0"), udp(server, 1, "127.0.0.1:0"));
    let _listener = Listener::bind(&there, 7).unwrap();
    let attempt = timeout(Duration::from_secs(5), Association::connect(&here, at(&there, 7)));
    let error = attempt.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("strandline trust add 127.0.0.1 SHA256:"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn plain_stacks_don_t_reach_encrypted_ones() {
    let network = Network::new();
    let (_, server) = both();
    let here = builder().memory(&network, [[10, 0, 0, 1].into()]).unwrap();
    let there = builder().encryption(server).memory(&network, [[10, 0, 0, 2].into()]).unwrap();
    let _listener = Listener::bind(&there, 7).unwrap();
    let error = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await.unwrap_err();
    assert!(error.to_string().contains("encryption required"), "{error}");
    assert_eq!(there.stats().packets_received, 0);
}

#[tokio::test(start_paused = true)]
async fn encrypted_stacks_don_t_reach_plain_ones() {
    let network = Network::new();
    let (client, _) = both();
    let here = builder().encryption(client).memory(&network, [[10, 0, 0, 1].into()]).unwrap();
    let there = builder().memory(&network, [[10, 0, 0, 2].into()]).unwrap();
    let _listener = Listener::bind(&there, 7).unwrap();
    let error = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await.unwrap_err();
    assert!(matches!(error, ConnectError::Ended(Ended::NotEncrypted(_))), "{error}");
}

#[tokio::test]
async fn lists_of_several_files_count_together() {
    let folder = std::env::temp_dir().join(format!("strandline-lists-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let key = folder.join("key.pem");
    create_identity(&key, "test").unwrap();
    let hosts: Vec<String> = (0..2)
        .map(|number| {
            let path = folder.join(number.to_string());
            std::fs::write(&path, format!("host{number} {}\nbad\n", identity().fingerprint())).unwrap();
            path.display().to_string()
        })
        .collect();
    let encryption = Options { key: Some(key.clone()), trust: hosts }.load().unwrap();
    let known = encryption.known_hosts().unwrap();
    assert_eq!(known.hosts().count(), 2);
    assert_eq!(known.to_string().matches("bad").count(), 2, "these stay refused");
    let missing = folder.join("none").display().to_string();
    let error = Options { key: Some(key), trust: vec![missing.clone()] }.load().unwrap_err();
    let chain: String = chain_of(&error);
    assert_eq!(chain.matches("os error").count(), 1, "{chain}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// A file without an end is no list, and a list that is too long is not cut off.
#[test]
fn changes_of_several_processes_are_all_kept() {
    let folder = std::env::temp_dir().join(format!("strandline-changes-{}", std::process::id()));
    let path = folder.join("known_hosts");
    std::thread::scope(|scope| {
        for process in 0..8 {
            let path = &path;
            scope.spawn(move || {
                for number in 0..10 {
                    let name = format!("host{process}-{number}");
                    let fingerprint = Fingerprint::of_key(name.as_bytes());
                    let host = KnownHost { name, fingerprint, comment: String::new() };
                    assert!(KnownHostsFile::new(path).change(|hosts| hosts.add(host)).unwrap());
                }
            });
        }
    });
    assert_eq!(KnownHostsFile::new(&path).read().unwrap().hosts().count(), 80);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn endless_files_are_refused() {
    let folder = std::env::temp_dir().join(format!("strandline-endless-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let key = folder.join("key.pem");
    create_identity(&key, "test").unwrap();
    let options = Options { key: Some(key), trust: vec!["/dev/zero".to_owned()] };
    let error = options.load().unwrap_err().to_string();
    assert!(error.starts_with("/dev/zero: ") && error.contains("more than 16 MiB"), "{error}");
    let long = folder.join("known_hosts");
    let line = format!("host {}\n", identity().fingerprint());
    std::fs::write(&long, line.repeat((16 << 20) / line.len() + 1)).unwrap();
    for path in ["/dev/zero".into(), long] {
        let error = KnownHostsFile::new(path).read().unwrap_err().to_string();
        assert!(error.contains("more than 16 MiB"), "{error}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// The text of an error and of its sources, as programs print it.
fn chain_of(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain_of(source)),
        None => error.to_string(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_is_learned_by_its_name() {
    let network = Network::new();
    let server = identity();
    let key = server.fingerprint();
    let server = Encryption::new(server, Trust::nobody()).anonymous_clients(true);
    let trust = Trust::nobody().hosts(KnownHosts::default(), true);
    let folder = std::env::temp_dir().join(format!("strandline-known-{}", std::process::id()));
    let file = Arc::new(KnownHostsFile::new(folder.join("known_hosts")));
    let client = Encryption::new(identity(), trust).on_learned(file.clone());
    let here = builder().encryption(client).memory(&network, [[10, 0, 0, 1].into()]).unwrap();
    let there = builder().encryption(server).memory(&network, [[10, 0, 0, 2].into()]).unwrap();
    let (client, server) = pair(&here, &there, Peer::new([10, 0, 0, 2], 7).named("server.example")).await;
    assert_eq!(client.peer_identity().unwrap().fingerprint, key);
    assert_eq!(server.peer_identity(), None, "an anonymous client");
    let known = file.read().unwrap();
    assert_eq!(known.to_string(), format!("server.example {key}\n"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn keys_that_others_can_read_are_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = std::env::temp_dir().join(format!("strandline-keys-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("key.pem");
    let fingerprint = create_identity(&path, "test").unwrap();
    assert_eq!(read_identity(&path).unwrap().fingerprint(), fingerprint);
    assert!(create_identity(&path, "test").is_err(), "a key is never overwritten");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let error = read_identity(&path).unwrap_err().to_string();
    assert!(error.contains("chmod 600"), "{error}");
    let missing = Options { key: Some(folder.join("none.pem")), ..Options::default() };
    assert!(missing.load().unwrap_err().to_string().contains("strandline keygen"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn raw_ip_is_not_encrypted() {
    let (client, _) = both();
    let stack =
        builder().encryption(client).raw_with([127, 0, 0, 1], RawOptions::default(), Default::default());
    assert!(stack.unwrap_err().to_string().contains("encryption"));
}

#[tokio::test]
async fn a_port_without_a_listener_is_reported() {
    let (client, _) = both();
    let here = udp(client, 1, "127.0.0.1:0");
    let free = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let attempt = timeout(Duration::from_secs(5), Association::connect(&here, Peer::encapsulated(free, 7)));
    let error = attempt.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("port unreachable"), "{error}");
}

/// Without a report the handshake, and the INITs after it, would be tried for minutes.
#[tokio::test]
async fn missing_route_ends_an_encrypted_attempt() {
    let (client, server) = both();
    let (here, there) = (udp(client, 1, "127.0.0.1:0"), udp(server, 1, "127.0.0.1:0"));
    let foreign = IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]);
    let attempt = Association::connect(&here, Peer::new(foreign, 7));
    let error = timeout(Duration::from_secs(5), attempt).await;
    assert_eq!(error.unwrap().unwrap_err(), ConnectError::Ended(Ended::NoRoute));
    assert_eq!(here.encryption_stats().unwrap().connections, 0, "the handshake has ended too");
    // If the peer has another address, that one is tried.
    let both = Peer::new(foreign, 7).address([127, 0, 0, 1]);
    let (client, _server) = pair(&here, &there, both.encapsulation_port(port_of(&there))).await;
    assert_eq!(client.shutdown().await, Ended::ShutDown);
}

#[tokio::test]
async fn addresses_without_a_listener_are_passed_over() {
    let (client, server) = both();
    let (here, there) = (udp(client, 1, "127.0.0.1:0"), udp(server, 1, "127.0.0.1:0"));
    let to = |last: u8| Peer::new([127, 0, 0, 9], 7).address([127, 0, 0, last]);
    let (client, _server) = pair(&here, &there, to(1).encapsulation_port(port_of(&there))).await;
    assert_eq!(client.shutdown().await, Ended::ShutDown);
    // The last of them has the reason.
    let attempt = Association::connect(&here, to(8).encapsulation_port(port_of(&there)));
    let error = timeout(Duration::from_secs(5), attempt).await.unwrap().unwrap_err().to_string();
    assert!(error.contains("port unreachable"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn addresses_without_encryption_are_passed_over() {
    let network = Network::new();
    let (client, server) = both();
    let here = builder().encryption(client).memory(&network, [[10, 0, 0, 1].into()]).unwrap();
    let plain = [[10, 0, 0, 2], [10, 0, 0, 3]];
    let _plain = plain.map(|address| builder().memory(&network, [address.into()]).unwrap());
    let there = builder().encryption(server).memory(&network, [[10, 0, 0, 4].into()]).unwrap();
    let to = |last: u8| Peer::new([10, 0, 0, 2], 7).address([10, 0, 0, last]);
    let (client, _server) = pair(&here, &there, to(4)).await;
    assert_eq!(client.shutdown().await, Ended::ShutDown);
    let error = Association::connect(&here, to(3)).await.unwrap_err();
    assert!(matches!(error, ConnectError::Ended(Ended::NotEncrypted(_))), "{error}");
    assert!(error.to_string().contains("strandline keygen"), "{error}");
}

#[tokio::test]
async fn another_key_cannot_restart_an_association() {
    for same_key in [false, true] {
        let (first, other, server) = (identity(), identity(), identity());
        let second = if same_key { first.clone() } else { other.clone() };
        let trust = Trust::nobody().pin(server.fingerprint());
        let trusted = Trust::nobody().pin(first.fingerprint()).pin(other.fingerprint());
        let (first_key, there) =
            (first.fingerprint(), udp(Encryption::new(server, trusted), 1, "127.0.0.1:0"));
        let listener = Listener::bind(&there, 7).unwrap();
        let relay = Relay::start("127.0.0.1:0", "127.0.0.1:0", there.local_addr().unwrap()).await;
        let to = Peer::encapsulated(relay.address(), 7);

        let here = udp(Encryption::new(first, trust.clone()), 1, "127.0.0.1:0");
        let endpoint = Endpoint::bind(&here, 4000).unwrap();
        endpoint.connect(to.clone()).await.unwrap();
        let association = listener.accept().await.unwrap();
        let tag = association.status().unwrap().local_tag;

        // To the server it has the address and ports of the first.
        let here = udp(Encryption::new(second, trust), 1, "127.0.0.1:0");
        let intruder = Endpoint::bind(&here, 4000).unwrap();
        let attempt = timeout(Duration::from_secs(2), intruder.connect(to)).await;
        assert_eq!(matches!(attempt, Ok(Ok(_))), same_key, "{attempt:?}");
        let status = association.status().unwrap();
        assert_eq!(status.local_tag != tag, same_key, "only its own peer restarts it");
        assert_eq!(association.peer_identity().unwrap().fingerprint, first_key);
    }
}
