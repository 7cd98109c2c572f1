use super::*;

fn bind_error(errno: i32, address: &str) -> OpenError {
    OpenError::of_bind(io::Error::from_raw_os_error(errno), address.parse().unwrap())
}

#[test]
fn errors_say_what_can_be_done() {
    let privilege = OpenError::of_socket(io::Error::from_raw_os_error(libc::EPERM), true).to_string();
    assert!(
        privilege.contains("setcap cap_net_raw+ep") && privilege.contains("UDP encapsulation"),
        "{privilege}"
    );
    assert!(matches!(bind_error(libc::EADDRINUSE, "127.0.0.1:9899"), OpenError::AddressInUse { .. }));
    assert!(matches!(bind_error(libc::EACCES, "127.0.0.1:99"), OpenError::PrivilegedPort { .. }));
    assert!(matches!(bind_error(libc::EADDRNOTAVAIL, "192.0.2.1:0"), OpenError::AddressNotAvailable { .. }));
    let no_zone = bind_error(libc::EINVAL, "[fe80::1]:9899").to_string();
    assert!(no_zone.ends_with("add the interface, as in fe80::1%eth0"), "{no_zone}");
    assert!(matches!(bind_error(libc::EINVAL, "[fe80::1%2]:9899"), OpenError::Io { .. }));
    assert!(matches!(bind_error(libc::EIO, "192.0.2.1:0"), OpenError::Io { .. }));
    let family = OpenError::of_socket(io::Error::from_raw_os_error(libc::EAFNOSUPPORT), false);
    assert!(matches!(family, OpenError::Ipv6Disabled { .. }));
}
