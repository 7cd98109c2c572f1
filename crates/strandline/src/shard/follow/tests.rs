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

fn peers() -> [SocketAddr; 1] {
    ["10.0.9.1:9899".parse().unwrap()]
}

#[test]
fn gained_addresses_are_added_and_lost_ones_deleted() {
    let mut followed = HostAddresses::new(host(&["10.0.0.1", "10.0.1.1"]));
    assert!(followed.update(host(&["10.0.1.1", "10.0.0.1"])).is_empty());
    assert!(!followed.update(host(&["10.0.1.1", "10.0.2.1"])).is_empty());
    let [gained, lost] = ["10.0.2.1", "10.0.0.1"].map(|address| address.parse().unwrap());
    let both = [AddressRequest::Add(gained), AddressRequest::Delete(lost)];
    assert_eq!(followed.requests(&ips(&["10.0.0.1", "10.0.1.1"]), &peers()), both);
    assert_eq!(followed.requests(&ips(&["10.0.0.1"]), &peers()), both);
    assert_eq!(followed.requests(&ips(&["10.0.1.1", "10.0.2.1"]), &peers()), []);
    // It returns: an association that deleted it adds it again.
    assert!(!followed.update(host(&["10.0.0.1", "10.0.1.1", "10.0.2.1"])).is_empty());
    assert_eq!(followed.requests(&ips(&["10.0.1.1", "10.0.2.1"]), &peers()), [AddressRequest::Add(lost)]);
}

#[test]
fn last_address_stays_until_it_is_replaced() {
    let mut followed = HostAddresses::new(host(&["10.0.0.1"]));
    assert!(!followed.update(Vec::new()).is_empty());
    assert_eq!(followed.requests(&ips(&["10.0.0.1"]), &peers()), []);
    assert!(!followed.update(host(&["10.0.1.1"])).is_empty());
    assert_eq!(followed.requests(&ips(&["10.0.0.1"]), &peers()).len(), 2);
}

#[test]
fn unreachable_addresses_are_not_added() {
    let mut followed = HostAddresses::new(host(&["10.0.0.1"]));
    let more = ["10.0.0.1", "127.0.0.2", "169.254.0.9", "fe80::1", "2001:db8::1"];
    assert!(!followed.update(host(&more)).is_empty());
    assert_eq!(followed.requests(&ips(&["10.0.0.1"]), &peers()), []);
    // An association without known addresses, or without the extension, asks for nothing that exists already.
    assert!(followed.update(host(&more)).is_empty());
}

#[test]
fn requests_and_memory_are_bounded() {
    let many: Vec<String> = (0..200).map(|n| format!("10.1.{n}.1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut followed = HostAddresses::new(host(&["10.0.0.1"]));
    followed.update(host(&many));
    let requests = followed.requests(&ips(&["10.0.0.1"]), &peers());
    assert_eq!(requests.iter().filter(|request| matches!(request, AddressRequest::Add(_))).count(), 4);
    assert_eq!(requests.last(), Some(&AddressRequest::Delete("10.0.0.1".parse().unwrap())));
    let full: Vec<IpAddr> = ips(&many[..8]);
    assert_eq!(followed.requests(&full, &peers()), []);
    for round in 0..10 {
        followed.update(host(&many[round * 20..]));
    }
    assert!(followed.gained.len() <= REMEMBERED_MAX && followed.lost.len() <= REMEMBERED_MAX);
}

/// An address is of use if it reaches any of the peer's. What a request has no room for follows the answers.
#[test]
fn two_families_are_added_step_by_step() {
    let gained = ["10.1.1.1", "10.1.2.1", "10.1.3.1", "2001:db8::1", "2001:db8::2", "2001:db8::3"];
    let mut followed = HostAddresses::new(host(&["10.0.0.1"]));
    followed.update(host(&[&["10.0.0.1"][..], &gained].concat()));
    let both: Vec<SocketAddr> = vec![peers()[0], "[2001:db8::9]:9899".parse().unwrap()];
    let mut local = ips(&["10.0.0.1"]);
    let mut rounds = Vec::new();
    loop {
        let requests = followed.requests(&local, &both);
        if requests.is_empty() {
            break;
        }
        rounds.push(requests.len());
        local.extend(requests.iter().map(|request| request.address()));
    }
    assert_eq!((rounds, &local[1..]), (vec![4, 2], &ips(&gained)[..]));
    assert_eq!(followed.requests(&ips(&["10.0.0.1"]), &peers()).len(), 3, "the peer has no IPv6");
}

/// An association goes on once its peer has answered; a refused request is repeated after a pause, but not for ever.
#[test]
fn answers_let_an_association_go_on() {
    let id = AssociationId { slot: 3, generation: 1 };
    let (mut following, now) = (Following::of(host(&["10.0.0.1"])), Time::ZERO);
    let add = AddressRequest::Add("10.1.1.1".parse().unwrap());
    following.on_outcome(now, id, add, AddressOutcome::Performed);
    assert!(following.waiting.is_empty(), "the host has not changed");
    following.host.update(host(&["10.0.0.1", "10.1.1.1"]));
    let delete = AddressRequest::Delete("10.1.1.1".parse().unwrap());
    following.on_outcome(now, id, delete, AddressOutcome::Performed);
    assert!(following.waiting.is_empty(), "the application wants it so");
    following.on_outcome(now, id, add, AddressOutcome::Performed);
    following.on_outcome(now, id, add, AddressOutcome::Performed);
    assert_eq!(following.waiting.drain(..).collect::<Vec<_>>(), [(now, id, 0)]);
    let refused = AddressOutcome::Refused { code: 0xA4 };
    let mut visits = 0;
    for _ in 0..100 {
        following.on_outcome(now, id, add, refused);
        visits += following.waiting.drain(..).filter(|(at, ..)| *at == now + RETRY_PAUSE).count();
    }
    assert_eq!(visits, usize::from(RETRIES_MAX) - 1);
    following.begin();
    following.on_outcome(now, id, add, refused);
    assert_eq!(following.waiting.len(), 1, "the next change begins anew");
}

/// If more associations wait than are remembered, all are visited.
#[test]
fn no_association_is_forgotten() {
    let mut following = Following::of(host(&["10.0.0.1"]));
    following.host.update(host(&["10.0.0.1", "10.1.1.1"]));
    for slot in 0..=WAITING_MAX as u32 {
        assert_eq!(following.next_slot, None, "{slot}");
        following.welcome(Time::ZERO, AssociationId { slot, generation: 1 });
    }
    assert_eq!((following.waiting.len(), following.next_slot), (WAITING_MAX, Some(0)));
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
