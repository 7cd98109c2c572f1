use super::*;

#[test]
fn work_is_shared_out_and_addresses_differ() {
    let shares: Vec<u64> = (0..3).map(|number| share(11, 3, number)).collect();
    assert_eq!(shares, [4, 4, 3]);
    assert_eq!(host_address(0), IpAddr::from([127, 0, 0, 2]));
    assert_eq!(host_address(254), IpAddr::from([127, 0, 1, 0]));
}
