use std::net::TcpListener;

use super::*;

fn address(name: &str, address: &str, is_udp: bool) -> StartAddress {
    StartAddress { key: "listen".into(), name: name.to_owned(), address: address.parse().unwrap(), is_udp }
}

#[test]
fn two_on_one_port_exclude_each_other() {
    let tcp = address("tcp", "192.0.2.1:5060", false);
    for (other, is_flawed) in [
        (address("tls", "192.0.2.1:5060", false), true),
        (address("metrics", "0.0.0.0:5060", false), true),
        (address("ws", "[::]:5060", false), true),
        (address("ws", "[::ffff:192.0.2.1]:5060", false), true),
        (address("udp", "192.0.2.1:5060", true), false),
        (address("tls", "192.0.2.2:5060", false), false),
        (address("tls", "192.0.2.1:5061", false), false),
        (address("ws", "[2001:db8::1]:5060", false), false),
    ] {
        let flaws = StartAddress::twice(&[tcp.clone(), other.clone()]);
        assert_eq!(flaws.len(), usize::from(is_flawed), "{other:?}");
        assert!(flaws.iter().all(|flaw| flaw.is_error && flaw.message.contains("tcp on 192.0.2.1:5060")));
    }
    let any = [address("udp", "127.0.0.1:0", true), address("sctp", "127.0.0.1:0", true)];
    assert!(StartAddress::twice(&any).is_empty());
}

#[test]
fn an_address_that_the_machine_lacks_is_reported() {
    let hint = |error: &io::Error| match error.kind() {
        io::ErrorKind::AddrNotAvailable => ": this machine does not have the address",
        _ => "",
    };
    for is_udp in [true, false] {
        let flaw = address("tcp", "192.0.2.77:5060", is_udp).not_bound(hint).unwrap();
        assert!(flaw.is_error && flaw.message.contains("does not have the address"), "{flaw}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let flaw = address("tcp", &at, false).not_bound(hint).unwrap();
    assert!(!flaw.is_error && flaw.message.contains("by this server if it is running"), "{flaw}");
    assert_eq!(address("tcp", "127.0.0.1:0", false).not_bound(hint), None);
}

#[test]
fn a_file_needs_its_folder() {
    let folder = std::env::temp_dir().join(format!("strandline-tries-{}", std::process::id()));
    let path = folder.join("sip.db");
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let flaw = not_opened("store.path", &path, &options).unwrap();
    assert!(flaw.is_error && flaw.message.contains("create it first"), "{flaw}");
    std::fs::create_dir_all(&folder).unwrap();
    assert_eq!(not_opened("store.path", &path, &options), None);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "nothing is left");
    assert!(not_opened("store.path", &folder, &options).unwrap().is_error);
    std::fs::remove_dir_all(&folder).unwrap();
}
