use super::*;

#[test]
fn each_place_has_tags_and_vice_versa() {
    for places in 1..=PLACES_MAX {
        let steering = Steering::new(places, 7);
        for place in 0..places {
            assert_eq!(steering.place_of_tag(0xffff_ff00 & !steering.place_mask() | u32::from(place)), place);
            let shared = steering.clone().of_generation(3);
            assert_eq!(shared.place_of_tag(0xffff_f000 | shared.tag_of_place(place)), place);
            assert_eq!(shared.tag_of_place(place) & 3, 3);
        }
        for tag in 0..=255 {
            assert!(steering.place_of_tag(tag) < places);
        }
    }
    assert_eq!([1, 2, 3, 4, 5, 64].map(|places| Steering::new(places, 0).tag_bits()), [0, 1, 2, 2, 3, 6]);
    assert_eq!((Steering::new(0, 1).places(), Steering::new(99, 1).places()), (1, PLACES_MAX));
}

#[test]
fn packets_name_their_generation() {
    let plain = Steering::new(2, 7).of_generation(1);
    assert_eq!(plain.generation_of(&[0, 7, 0, 7, 1, 2, 3, 6]), Some(2));
    assert_eq!(plain.generation_of(&[0, 7, 0, 7, 0, 0, 0, 0]), None, "an INIT");
    assert_eq!(
        Steering::new(2, 7).generation_of(&[0, 7, 0, 7, 1, 2, 3, 6]),
        None,
        "the address is not shared"
    );
    let sealed = plain.by_connection();
    assert_eq!(sealed.generation_of(&[11, 0, 0, 0, 0, 0, 0, 0, 7]), Some(3));
    assert_eq!(sealed.generation_of(&[8, 0, 0, 0, 0, 0, 0, 0, 7]), None, "the client's own");
    assert_eq!(sealed.generation_of(&[22, 0, 0, 0, 0, 0, 0, 0, 7]), None, "no connection ID");
}

#[test]
fn peers_are_spread_evenly() {
    for key in 0..8 {
        let steering = Steering::new(4, key);
        // One client's ports, and one port of many clients.
        let mut counts = [[0_u32; 4]; 3];
        for number in 0..4096_u16 {
            let v4 = IpAddr::from([10, 0, (number >> 8) as u8, number as u8]);
            let v6 = IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, number]);
            counts[0][usize::from(steering.home([10, 0, 0, 1].into(), 49_152 + number, 7))] += 1;
            counts[1][usize::from(steering.home(v4, 5_060, 7))] += 1;
            counts[2][usize::from(steering.home(v6, 5_060, 7))] += 1;
        }
        assert!(counts.iter().flatten().all(|count| (700..1400).contains(count)), "{counts:?}");
    }
}

#[test]
fn a_mapped_address_is_the_same_peer() {
    let steering = Steering::new(64, 3);
    for last in 0..=255 {
        let v4 = std::net::Ipv4Addr::new(192, 0, 2, last);
        assert_eq!(steering.home(v4.into(), 1, 2), steering.home(v4.to_ipv6_mapped().into(), 1, 2));
    }
}
