use super::*;

#[test]
fn work_is_shared_out_and_addresses_differ() {
    let shares: Vec<u64> = (0..3).map(|number| share(11, 3, number)).collect();
    assert_eq!(shares, [4, 4, 3]);
    assert_eq!(host_address(0), IpAddr::from([127, 0, 0, 2]));
    assert_eq!(host_address(254), IpAddr::from([127, 0, 1, 0]));
}

#[test]
fn what_the_kernel_took_is_told_by_what_it_is_for() {
    let caches = |tcp: u64, heads: u64, shared: u64| -> SlabCaches {
        [("TCP", tcp), ("skbuff_head_cache", heads), ("kmalloc-64", shared)]
            .map(|(name, bytes)| (name.to_owned(), bytes))
            .to_vec()
    };
    // Of ten connections, both ends of which are here.
    let each = |now: u64, base: u64| (now - base) as f64 / 20.0;
    let (now, base) = (caches(41_000, 3_000, 5_000), caches(1_000, 1_000, 1_000));
    let (items, caches) = itemised(&now, &base, (2_500.0, 150.0), each);
    assert_eq!((items.sock, items.buffers, items.other), (2_000.0, 250.0, 250.0));
    assert_eq!(caches["skbuff_head_cache"], 100.0);
}
