use super::*;

fn local(address: &str) -> LocalAddress {
    let address: IpAddr = address.parse().unwrap();
    LocalAddress { address, scope: Scope::of(address), interface: "eth0".to_owned(), interface_index: 2 }
}

fn host(addresses: &[&str]) -> Vec<LocalAddress> {
    addresses.iter().map(|address| local(address)).collect()
}

fn ips(addresses: &[&str]) -> Vec<IpAddr> {
    addresses.iter().map(|address| address.parse().unwrap()).collect()
}

fn peer() -> SocketAddr {
    "10.0.9.1:9899".parse().unwrap()
}

#[test]
fn gained_addresses_are_added_and_lost_ones_deleted() {
    let mut followed = HostAddresses::new(host(&["10.0.0.1", "10.0.1.1"]));
    assert!(followed.update(host(&["10.0.1.1", "10.0.0.1"])).is_empty());
    assert!(!followed.update(host(&["10.0.1.1", "10.0.2.1"])).is_empty());
    let [gained, lost] = ["10.0.2.1", "10.0.0.1"].map(|address| address.parse().unwrap());
    let both = [AddressRequest::Add(gained), AddressRequest::Delete(lost)];
    assert_eq!(followed.requests(&ips(&["10.0.0.1", "10.0.1.1"]), peer()), both);
    assert_eq!(followed.requests(&ips(&["10.0.0.1"]), peer()), both);
    assert_eq!(followed.requests(&ips(&["10.0.1.1", "10.0.2.1"]), peer()), []);
    // It returns: an association that deleted it adds it again.
    assert!(!followed.update(host(&["10.0.0.1", "10.0.1.1", "10.0.2.1"])).is_empty());
    assert_eq!(followed.requests(&ips(&["10.0.1.1", "10.0.2.1"]), peer()), [AddressRequest::Add(lost)]);
}

#[test]
fn last_address_stays_until_it_is_replaced() {
    let mut followed = HostAddresses::new(host(&["10.0.0.1"]));
    assert!(!followed.update(Vec::new()).is_empty());
    assert_eq!(followed.requests(&ips(&["10.0.0.1"]), peer()), []);
    assert!(!followed.update(host(&["10.0.1.1"])).is_empty());
    assert_eq!(followed.requests(&ips(&["10.0.0.1"]), peer()).len(), 2);
}

#[test]
fn unreachable_addresses_are_not_added() {
    let mut followed = HostAddresses::new(host(&["10.0.0.1"]));
    let more = ["10.0.0.1", "127.0.0.2", "169.254.0.9", "fe80::1", "2001:db8::1"];
    assert!(!followed.update(host(&more)).is_empty());
    assert_eq!(followed.requests(&ips(&["10.0.0.1"]), peer()), []);
    // An association without known addresses, or without the extension, asks for nothing that exists already.
    assert!(followed.update(host(&more)).is_empty());
}

#[test]
fn requests_and_memory_are_bounded() {
    let many: Vec<String> = (0..200).map(|n| format!("10.1.{n}.1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut followed = HostAddresses::new(host(&["10.0.0.1"]));
    followed.update(host(&many));
    let requests = followed.requests(&ips(&["10.0.0.1"]), peer());
    assert_eq!(requests.iter().filter(|request| matches!(request, AddressRequest::Add(_))).count(), 4);
    assert_eq!(requests.last(), Some(&AddressRequest::Delete("10.0.0.1".parse().unwrap())));
    let full: Vec<IpAddr> = ips(&many[..8]);
    assert_eq!(followed.requests(&full, peer()), []);
    for round in 0..10 {
        followed.update(host(&many[round * 20..]));
    }
    assert!(followed.gained.len() <= REMEMBERED_MAX && followed.lost.len() <= REMEMBERED_MAX);
}

/// New associations list what the host has now, without what was never listed.
#[test]
fn listed_addresses_follow_the_host() {
    let mut followed = HostAddresses::new(host(&["10.0.0.1", "10.0.1.1", "10.0.2.1"]));
    let listed = ips(&["10.0.0.1", "10.0.1.1"]);
    let changes = followed.update(host(&["10.0.1.1", "10.0.3.1"]));
    assert_eq!(changes, Changes { gained: ips(&["10.0.3.1"]), lost: ips(&["10.0.0.1", "10.0.2.1"]) });
    assert_eq!(changes.apply_to(&listed), ips(&["10.0.1.1", "10.0.3.1"]));
    assert!(changes.apply_to(&[]).is_empty());
    assert_eq!(changes.apply_to(&ips(&["10.0.3.1"])), ips(&["10.0.3.1"]));
    let changes = followed.update(Vec::new());
    assert_eq!(changes.apply_to(&ips(&["10.0.1.1"])), ips(&["10.0.1.1"]), "the last one stays");
    let many: Vec<_> = (0..20).map(|n| format!("10.1.{n}.1")).collect();
    let changes = followed.update(host(&many.iter().map(String::as_str).collect::<Vec<_>>()));
    assert_eq!(changes.apply_to(&listed).len(), PATHS_MAX);
}
