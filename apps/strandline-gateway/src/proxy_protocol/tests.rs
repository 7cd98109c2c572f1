use super::header;

#[test]
fn headers_have_addresses_of_one_family() {
    let four = header("192.0.2.1:258".parse().ok(), "192.0.2.2:80".parse().unwrap());
    assert_eq!(four.len(), 28);
    assert_eq!(four[12..], [0x21, 0x11, 0, 12, 192, 0, 2, 1, 192, 0, 2, 2, 1, 2, 0, 80]);
    let mixed = header("192.0.2.1:258".parse().ok(), "[::1]:80".parse().unwrap());
    assert_eq!((mixed.len(), mixed[13], mixed[15]), (52, 0x21, 36));
    assert_eq!(mixed[26..32], [0xff, 0xff, 192, 0, 2, 1]);
}
