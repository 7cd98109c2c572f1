//! Gateways that encrypt, and know each other by their keys.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use strandline::encryption::Fingerprint;

use crate::common::{Gateway, Home, accept, at_last, free_address, patient, read_all, read_exactly};
use crate::failures::socks;
use crate::slow_path::path;

/// The homes of a far and a near gateway that trust each other.
pub fn homes(test: &str) -> (Home, Home) {
    let (far, near) = (Home::new(&format!("{test}-far")), Home::new(&format!("{test}-near")));
    far.trust("laptop", near.key);
    near.trust("127.0.0.1", far.key);
    (far, near)
}

fn start_far(home: &Home, options: &str) -> Gateway {
    Gateway::start_in(&home.path, &format!("--listen 127.0.0.1:0 --admin 127.0.0.1:0 {options}"))
}

fn start_near(home: &Home, far: &Gateway, options: &str) -> Gateway {
    let listen = far.listens();
    Gateway::start_in(&home.path, &format!("--peer far={listen} --admin 127.0.0.1:0 {options}"))
}

/// A server, and its address.
fn server() -> (TcpListener, SocketAddr) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    (server, address)
}

/// Whether the far gateway connects onward for a client of the near one.
fn is_allowed(near: &Gateway, to: SocketAddr) -> bool {
    match socks(near.listener(0), &to.to_string()).1 {
        0 => true,
        2 => false,
        other => panic!("SOCKS answers {other}"),
    }
}

#[test]
fn keys_that_exist_encrypt() {
    let (far_home, near_home) = homes("encrypted");
    let (server, address) = server();
    let far = start_far(&far_home, &format!("--allow {address}"));
    let near = start_near(&near_home, &far, &format!("--forward 0={address}"));
    assert_eq!(far.announced["key"], far_home.key.to_string());
    let mut client = patient(TcpStream::connect(near.listener(0)).unwrap());
    client.write_all(b"question").unwrap();
    let mut served = accept(&server);
    assert_eq!(read_exactly(&mut served, 8), b"question");
    served.write_all(b"answer").unwrap();
    drop(served);
    assert_eq!(read_all(&mut client), (b"answer".to_vec(), true));
    assert_eq!(far.status()["associations"][0]["key"], near_home.key.to_string());
    assert_eq!(near.status()["associations"][0]["key"], far_home.key.to_string());
}

#[test]
fn a_far_gateway_with_another_key_is_refused() {
    let (far_home, near_home) = homes("changed");
    let impostor = Home::new("impostor");
    impostor.trust("laptop", near_home.key);
    let (_server, address) = server();
    let far = start_far(&impostor, &format!("--allow {address}"));
    let near = start_near(&near_home, &far, &format!("--forward 0={address}"));
    at_last("the near one says why", || {
        let log = near.log();
        log.contains(&impostor.key.to_string()) && log.contains(&far_home.key.to_string())
    });
    assert_eq!(far.status()["associations"].as_array().unwrap().len(), 0);
}

#[test]
fn an_unknown_near_gateway_is_refused() {
    let (far_home, _) = homes("unknown");
    let stranger = Home::new("stranger");
    stranger.trust("127.0.0.1", far_home.key);
    let (_server, address) = server();
    let far = start_far(&far_home, &format!("--allow {address}"));
    let near = start_near(&stranger, &far, &format!("--forward 0={address}"));
    at_last("both say why", || {
        let add = format!("strandline trust add NAME {}", stranger.key);
        far.log().contains(&add) && near.log().contains(&add)
    });
    assert_eq!(far.status()["associations"].as_array().unwrap().len(), 0);
}

/// First byte of the datagrams that begin a handshake (docs/encryption.md).
const INITIAL: u8 = 8;

/// A far gateway that was killed, and has started again, answers what it can't read: the near one sets up an
/// association at once.
#[test]
fn a_killed_far_gateway_is_noticed_at_once() {
    let (far_home, near_home) = homes("killed");
    let (server, address) = server();
    let options = format!("--listen {} --allow {address}", free_address());
    let mut far = Gateway::start_in(&far_home.path, &options);
    // Handshakes that the near one has begun, and datagrams of an established connection that it has sent before.
    let [begun, lost] = [(); 2].map(|()| Arc::<AtomicU32>::default());
    let counters = [Arc::clone(&begun), Arc::clone(&lost)];
    let count = move |datagram: &[u8]| {
        let is_first = datagram.first() == Some(&INITIAL);
        if is_first || counters[0].load(Ordering::Relaxed) == 0 {
            counters[usize::from(!is_first)].fetch_add(1, Ordering::Relaxed);
        }
        true
    };
    let peer = path(far.listens().parse().unwrap(), count, |_| true);
    let near = format!("--peer far={peer} --admin 127.0.0.1:0 --forward 0={address}");
    let near = Gateway::start_in(&near_home.path, &near);
    let connect = || near.connect_to(&server);
    let (mut client, _served) = connect();
    far.kill();
    begun.store(0, Ordering::Relaxed);
    let _far = Gateway::start_in(&far_home.path, &options);
    // What comes from here on is answered. One is sent each second, or more rarely once several have had no answer.
    lost.store(0, Ordering::Relaxed);
    at_last("a handshake begins", || begun.load(Ordering::Relaxed) > 0);
    let lost = lost.load(Ordering::Relaxed);
    assert!(lost <= 5, "the near one had sent {lost} before it began anew");
    at_last("the new one says so", || near.log().contains("the peer has restarted"));
    assert_eq!(read_all(&mut client), (Vec::new(), false));
    drop(connect());
}

#[test]
fn a_peer_may_have_its_own_list() {
    let (far_home, near_home) = homes("pinned");
    let (server, address) = server();
    let far = start_far(&far_home, &format!("--allow {address}"));
    let other = Fingerprint::of_key(b"other");
    let config = |pin| {
        let listen = far.listens();
        format!(
            "[[peer]]\nname = \"far\"\naddresses = [\"{listen}\"]\ntrust = [\"{pin}\"]\n[[socks]]\nlisten = \"0\"\n"
        )
    };
    let wrong = near_home.write("wrong.toml", &config(other));
    let near = Gateway::start_in(&near_home.path, &format!("--config {wrong}"));
    at_last("the key is not the one", || near.log().contains(&far_home.key.to_string()));
    let right = near_home.write("right.toml", &config(far_home.key));
    let near = Gateway::start_in(&near_home.path, &format!("--config {right}"));
    assert!(is_allowed(&near, address));
    drop(server);
}

#[test]
fn access_follows_keys() {
    let (far_home, near_home) = homes("access");
    let desk = Home::new("access-desk");
    far_home.trust("desk", desk.key);
    desk.trust("127.0.0.1", far_home.key);
    let ((_one, of_laptop), (_two, of_desk)) = (server(), server());
    let desk_key = desk.key;
    let config = far_home.write(
        "far.toml",
        &format!(
            "[[access]]\nkey = \"laptop\"\nallow = [\"{of_laptop}\"]\n\
             [[access]]\nkey = [\"{desk_key}\"]\nallow = [\"{of_desk}\"]\n"
        ),
    );
    let far = start_far(&far_home, &format!("--config {config}"));
    for (home, allowed, denied) in [(&near_home, of_laptop, of_desk), (&desk, of_desk, of_laptop)] {
        let near = start_near(home, &far, "--socks 0");
        assert!(is_allowed(&near, allowed) && !is_allowed(&near, denied));
    }
}

/// Files for a far and a near gateway whose certificates an authority has signed: the options of both.
fn certified(home: &Home, far_name: &str) -> [String; 2] {
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let file = home.write("authority.pem", &authority.self_signed(&key).unwrap().pem());
    let issuer = Issuer::new(authority, key);
    [
        ("far", far_name, ExtendedKeyUsagePurpose::ServerAuth),
        ("near", "laptop", ExtendedKeyUsagePurpose::ClientAuth),
    ]
    .map(|(side, name, usage)| {
        let (mut params, key) =
            (CertificateParams::new([name.to_owned()]).unwrap(), KeyPair::generate().unwrap());
        params.extended_key_usages = vec![usage];
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let own = home.path.join(format!("{side}-{name}.pem"));
        let mut options = std::fs::OpenOptions::new();
        let mut written = options.write(true).create(true).truncate(true).mode(0o600).open(&own).unwrap();
        write!(written, "{}{}", key.serialize_pem(), certificate.pem()).unwrap();
        format!("--key {} --trust {file}", own.display())
    })
}

/// Neither side lists the other's key.
#[test]
fn an_authority_vouches_for_both_sides() {
    let home = Home::new("authority");
    let (_server, address) = server();
    let [far, near] = certified(&home, "127.0.0.1");
    let far = start_far(&home, &format!("--allow {address} {far}"));
    assert!(is_allowed(&start_near(&home, &far, &format!("--socks 0 {near}")), address));
    // It vouches for another host, and for clients only.
    let [other, near] = certified(&home, "other.example");
    for options in [&other, &near] {
        let far = start_far(&home, &format!("--allow {address} {options}"));
        let near = start_near(&home, &far, &format!("--socks 0 {near}"));
        at_last("the near one says so", || near.log().contains("certificate is not valid"));
        assert_eq!(far.status()["associations"].as_array().unwrap().len(), 0);
    }
    // A client that nobody vouches for.
    let [far, _] = certified(&home, "127.0.0.1");
    let far = start_far(&home, &format!("--allow {address} {far}"));
    let trust = home.write("known", &format!("127.0.0.1 {}\n", far.announced["key"].as_str().unwrap()));
    let stranger = Home::new("stranger-to-it");
    let near = start_near(&stranger, &far, &format!("--socks 0 --trust {trust}"));
    let key = stranger.key.to_string();
    at_last("the far one says so", || {
        let log = far.log();
        log.contains("certificate is not valid") && log.contains(&key)
    });
    assert_eq!(far.status()["associations"].as_array().unwrap().len(), 0);
    drop(near);
}

#[test]
fn one_side_without_encryption_says_so() {
    let (far_home, near_home) = homes("one-side");
    let (_server, address) = server();
    let encrypted = start_far(&far_home, "");
    let near = start_near(&near_home, &encrypted, &format!("--forward 0={address} --insecure"));
    at_last("both say that only one encrypts", || {
        near.log().contains("encryption required") && encrypted.log().contains("a peer without encryption")
    });
    let plain = start_far(&far_home, "--insecure");
    let near = start_near(&near_home, &plain, &format!("--forward 0={address}"));
    at_last("both say that the other one encrypts", || {
        near.log().contains("the peer does not encrypt") && plain.log().contains("a peer that encrypts")
    });
}
