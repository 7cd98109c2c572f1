use super::*;

fn bound(name: &str, address: &str, is_udp: bool) -> Bound {
    Bound { key: "listen", name: name.to_owned(), address: address.parse().unwrap(), is_udp }
}

#[test]
fn two_on_one_port_exclude_each_other() {
    let tcp = bound("tcp", "192.0.2.1:5060", false);
    for (other, is_flawed) in [
        (bound("tls", "192.0.2.1:5060", false), true),
        (bound("metrics", "0.0.0.0:5060", false), true),
        (bound("ws", "[::]:5060", false), true),
        (bound("udp", "192.0.2.1:5060", true), false),
        (bound("tls", "192.0.2.2:5060", false), false),
        (bound("tls", "192.0.2.1:5061", false), false),
        (bound("ws", "[2001:db8::1]:5060", false), false),
    ] {
        let flaws = twice(&[tcp.clone(), other.clone()]);
        assert_eq!(flaws.len(), usize::from(is_flawed), "{other:?}");
        assert!(flaws.iter().all(|flaw| flaw.is_error && flaw.message.contains("tcp on 192.0.2.1:5060")));
    }
    assert!(twice(&[bound("udp", "127.0.0.1:0", true), bound("sctp", "127.0.0.1:0", true)]).is_empty());
}

#[test]
fn an_address_that_the_machine_lacks_is_told() {
    for is_udp in [true, false] {
        let flaw = not_bound(&bound("tcp", "192.0.2.77:5060", is_udp)).unwrap();
        assert!(flaw.is_error && flaw.message.contains("does not have the address"), "{flaw}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let flaw = not_bound(&bound("tcp", &address, false)).unwrap();
    assert!(!flaw.is_error && flaw.message.contains("by this server if it is running"), "{flaw}");
    assert_eq!(not_bound(&bound("tcp", "127.0.0.1:0", false)), None);
}

#[test]
fn a_store_needs_its_folder() {
    let folder = std::env::temp_dir().join(format!("strandline-tries-{}", std::process::id()));
    let path = folder.join("sip.db");
    let flaw = not_opened(&path).unwrap();
    assert!(flaw.is_error && flaw.message.contains("create it first"), "{flaw}");
    std::fs::create_dir_all(&folder).unwrap();
    assert_eq!(not_opened(&path), None);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "nothing is left");
    assert!(not_opened(&folder).unwrap().is_error);
    std::fs::remove_dir_all(&folder).unwrap();
}
