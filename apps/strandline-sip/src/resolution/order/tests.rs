use super::*;

fn server(priority: u16, weight: u16, last: u8) -> Server {
    let addresses = vec![SocketAddr::from(([192, 0, 2, last], 5060))];
    Server { protocol: Protocol::Udp, priority, weight, addresses }
}

/// A deterministic pseudo-random generator.
fn seeded(seed: u64) -> impl FnMut(u32) -> u32 {
    let mut state = seed.wrapping_mul(2) + 1;
    move |most| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % (u64::from(most) + 1)) as u32
    }
}

fn lasts(servers: &[Server], random: impl FnMut(u32) -> u32) -> Vec<u8> {
    let last = |address: &SocketAddr| match address.ip() {
        core::net::IpAddr::V4(address) => address.octets()[3],
        core::net::IpAddr::V6(_) => 0,
    };
    in_order(servers, random).iter().map(|(_, address)| last(address)).collect()
}

#[test]
fn lower_priorities_come_first_whatever_the_weights_are() {
    let servers = [server(20, 1000, 3), server(10, 0, 1), server(10, 1, 2), server(30, 5, 4)];
    for seed in 0..100 {
        let order = lasts(&servers, seeded(seed));
        assert_eq!(order[2..], [3, 4], "{order:?}");
        assert_eq!(order[..2].iter().sum::<u8>(), 3, "{order:?}");
    }
}

#[test]
fn weights_say_how_often_a_server_is_first() {
    let servers = [server(0, 10, 1), server(0, 60, 2), server(0, 30, 3)];
    let mut first = [0u32; 4];
    for seed in 0..10_000 {
        let order = lasts(&servers, seeded(seed));
        assert_eq!(order.len(), 3);
        first[usize::from(order[0])] += 1;
    }
    // The random number is from 0 to 100, inclusive, so the shares are 11, 60 and 30 of 101.
    for (last, share) in [(1, 11.0), (2, 60.0), (3, 30.0)] {
        let expected = 10_000.0 * share / 101.0;
        let found = f64::from(first[last]);
        assert!((found - expected).abs() < 250.0, "{last}: {found} of {expected}");
    }
}

#[test]
fn server_without_weight_is_seldom_first() {
    let servers = [server(0, 100, 1), server(0, 0, 2)];
    let seldom = (0..10_000).filter(|seed| lasts(&servers, seeded(*seed))[0] == 2).count();
    assert!((30..300).contains(&seldom), "{seldom}");
    // The largest random number selects the last server, and 0 the first: none is left out.
    assert_eq!(lasts(&servers, |most| most), [1, 2]);
    assert_eq!(lasts(&servers, |_| 0), [2, 1]);
    assert!(lasts(&[], |most| most).is_empty());
}

#[test]
fn addresses_of_one_server_stay_together() {
    let mut two = server(0, 1, 1);
    two.addresses.push(SocketAddr::from(([192, 0, 2, 9], 5060)));
    for seed in 0..20 {
        let order = lasts(&[two.clone(), server(0, 1, 5)], seeded(seed));
        let at = order.iter().position(|last| *last == 1).unwrap();
        assert_eq!(order[at + 1], 9);
    }
}
