use super::*;

#[test]
fn addresses_survive_the_kernels_form() {
    for text in ["192.0.2.7:9899", "[2001:db8::7]:1", "127.0.0.1:0"] {
        let address: SocketAddr = text.parse().unwrap();
        let (name, _) = Name::of(address, false);
        assert_eq!(name.get(), Some(address));
    }
    let scoped = SocketAddr::V6(SocketAddrV6::new("fe80::1".parse().unwrap(), 5, 0, 3));
    assert_eq!(Name::of(scoped, false).0.get(), Some(scoped));
}

#[test]
fn mapped_addresses_are_given_as_ipv4() {
    let address: SocketAddr = "192.0.2.7:9899".parse().unwrap();
    let (name, len) = Name::of(address, true);
    assert_eq!(len as usize, size_of::<libc::sockaddr_in6>());
    assert_eq!(name.get(), Some(address));
    assert_eq!(Name::EMPTY.get(), None);
}
