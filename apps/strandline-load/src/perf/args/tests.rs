use super::*;

#[test]
fn numbers_have_letters_for_their_powers() {
    assert_eq!(scaled("1500", 1024).unwrap(), 1500);
    assert_eq!(scaled("64K", 1024).unwrap(), 65_536);
    assert_eq!(scaled("1.5m", 1000).unwrap(), 1_500_000);
    assert_eq!(scaled("2G", 1024).unwrap(), 2 << 30);
    assert_eq!(scaled("3t", 1000).unwrap(), 3_000_000_000_000);
    for wrong in ["", "K", "-1", "1KB", "nan", "inf", "1e30", "é"] {
        assert!(scaled(wrong, 1024).is_err(), "{wrong}");
    }
    assert!(size("0").is_err() && size("17M").is_err() && size("16M").is_ok());
    assert!(buffer("1000").is_err() && interval("0.01").is_err() && rate("0").is_err());
}
