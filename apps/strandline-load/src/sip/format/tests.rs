use super::Padded;

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn numbers_are_as_they_are_printed() {
    for number in [0u64, 7, 10, 99, 100, 65_535, 1_000_000, u64::MAX] {
        assert_eq!(text(|out| put!(out, number)), number.to_string());
    }
    assert_eq!(text(|out| put!(out, 0u8, "-", 4_294_967_295u32, "-", 12usize)), "0-4294967295-12");
}

#[test]
fn padded_messages_have_equal_length() {
    assert_eq!(text(|out| put!(out, Padded(0))), "000000");
    assert_eq!(text(|out| put!(out, Padded(63))), "000063");
    assert_eq!(text(|out| put!(out, Padded(1_234_567))), "1234567");
}

#[test]
fn addresses_are_as_they_are_printed() {
    for address in ["127.0.0.2:5060", "0.0.0.0:0", "255.255.255.255:65535", "[2001:db8::1]:5060"] {
        let address: std::net::SocketAddr = address.parse().unwrap();
        assert_eq!(text(|out| put!(out, address)), address.to_string());
    }
    let on_a_link: std::net::SocketAddr = "[fe80::1%3]:5060".parse().unwrap();
    assert_eq!(text(|out| put!(out, on_a_link)), "[fe80::1]:5060");
}
