use std::net::IpAddr;

use super::*;

/// Runs a program as the kernel does, for the instructions used here. A load beyond the packet returns 0.
/// Offsets relative to the IP header read from `ip`.
fn run_behind(program: &[sock_filter], ip: &[u8], packet: &[u8]) -> u32 {
    let (mut a, mut x, mut at, mut memory) = (0_u32, 0_u32, 0_usize, 0_u32);
    let load = |offset: u32, len: usize| {
        let (bytes, offset) = match offset.checked_sub(libc::SKF_NET_OFF as u32) {
            Some(offset) => (ip, offset as usize),
            None => (packet, offset as usize),
        };
        let bytes = bytes.get(offset..offset + len)?;
        Some(bytes.iter().fold(0_u32, |value, byte| value << 8 | u32::from(*byte)))
    };
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        let branch = |yes: bool| usize::from(if yes { jt } else { jf });
        let loaded = match u32::from(code) {
            0x20 => load(k, 4),
            0x28 => load(k, 2),
            0x30 => load(k, 1),
            0x40 => load(x + k, 4),
            0x48 => load(x + k, 2),
            0xb1 => {
                let Some(byte) = load(k, 1) else { return 0 };
                x = (byte & 0xf) * 4;
                continue;
            }
            0x61 => {
                x = memory;
                continue;
            }
            0x02 => {
                memory = a;
                continue;
            }
            0x07 => {
                x = a;
                continue;
            }
            0x05 => {
                at += k as usize;
                continue;
            }
            0x15 => {
                at += branch(a == k);
                continue;
            }
            0x25 => {
                at += branch(a > k);
                continue;
            }
            0x35 => {
                at += branch(a >= k);
                continue;
            }
            0x04 => Some(a.wrapping_add(k)),
            0x0c => Some(a.wrapping_add(x)),
            0x24 => Some(a.wrapping_mul(k)),
            0x54 => Some(a & k),
            0x74 => Some(a >> k),
            0x87 => Some(x),
            0x94 => Some(a % k),
            0x06 => return k,
            0x16 => return a,
            code => panic!("instruction {code:#x}"),
        };
        match loaded {
            Some(value) => a = value,
            None => return 0,
        }
    }
}

/// Runs a program that reads nothing before the packet.
fn run(program: &[sock_filter], packet: &[u8]) -> u32 {
    run_behind(program, &[], packet)
}

fn packet(destination_port: u16) -> Vec<u8> {
    [&[0x13, 0x88][..], &destination_port.to_be_bytes(), &[1, 2, 3, 4, 0, 0, 0, 0]].concat()
}

fn accepted(ports: &[RangeInclusive<u16>]) -> Vec<u16> {
    let program = port_program(Start::CommonHeader, &normalised(ports));
    assert!(program.len() <= 4_096, "{}", program.len());
    (0..=u16::MAX).filter(|port| run(&program, &packet(*port)) != 0).collect()
}

#[test]
fn exactly_the_given_ports_pass() {
    assert_eq!(accepted(&[]), []);
    assert_eq!(accepted(&[5_060..=5_060]), [5_060]);
    assert_eq!(accepted(&[65_535..=65_535, 0..=0, 7..=9, 8..=10, 11..=11]), [0, 7, 8, 9, 10, 11, 65_535]);
    assert_eq!(accepted(&[49_152..=49_407]).len(), 256);
    #[allow(clippy::reversed_empty_ranges)]
    let empty = 9..=7;
    assert_eq!(accepted(&[empty]), []);
}

#[test]
fn many_ports_are_found_by_halving() {
    let ports: Vec<_> = (0..250_u16).map(|index| index * 200..=index * 200 + index % 3).collect();
    let wanted: Vec<u16> = ports.iter().cloned().flatten().collect();
    assert_eq!(accepted(&ports), wanted);
}

#[test]
fn excess_ranges_are_joined_over_small_gaps() {
    // 300 pairs of close ports, each pair far from the others.
    let ports: Vec<_> =
        (0..300_u16).flat_map(|index| [index * 200, index * 200 + 2]).map(|port| port..=port).collect();
    let ranges = normalised(&ports);
    let passing = accepted(&ports);
    assert!(ports.iter().all(|range| passing.binary_search(range.start()).is_ok()));
    // 344 gaps are closed: the 300 of 2, and 44 of the 299 that are all 198 wide.
    assert_eq!((ranges.len(), passing.len()), (RANGES_MAX, 300 * 3 + 44 * 197));
    // The gaps grow, so the first ones are closed.
    let ports: Vec<_> =
        (0..350_u32).map(|index| (index * (index + 1) / 2) as u16).map(|port| port..=port).collect();
    assert_eq!(normalised(&ports).len(), RANGES_MAX);
    assert_eq!(accepted(&ports).len(), 94 * 95 / 2 + 1 + 255);
}

#[test]
fn port_is_found_behind_ipv4_options() {
    let program = port_program(Start::Ipv4Header, &normalised(&[5_060..=5_060]));
    for words in 5..=15_u8 {
        let mut bytes = vec![0xff; usize::from(words) * 4];
        bytes[0] = 0x40 | words;
        assert_eq!(run(&program, &[&bytes[..], &packet(5_060)].concat()), ACCEPT);
        assert_eq!(run(&program, &[&bytes[..], &packet(5_061)].concat()), REJECT);
        assert_eq!(run(&program, &bytes), REJECT);
    }
}

fn ip_header(source: IpAddr) -> Vec<u8> {
    match source {
        IpAddr::V4(v4) => {
            let mut header = vec![0xff; 24];
            header[0] = 0x46;
            header[12..16].copy_from_slice(&v4.octets());
            header
        }
        IpAddr::V6(v6) => {
            let mut header = vec![0xff; 40];
            header[0] = 0x6f;
            header[8..24].copy_from_slice(&v6.octets());
            header
        }
    }
}

fn tagged(source: u16, destination: u16, tag: u32) -> Vec<u8> {
    [&source.to_be_bytes()[..], &destination.to_be_bytes(), &tag.to_be_bytes(), &[9; 8]].concat()
}

/// Returns senders with all kinds of addresses and ports.
fn senders() -> impl Iterator<Item = (IpAddr, Vec<u8>)> {
    (0..2000_u32).map(|number| {
        let mixed = number.wrapping_mul(0x9e37_79b1);
        let [a, b, c, d] = mixed.to_be_bytes();
        let source = if number % 2 == 0 {
            IpAddr::from([a, b, c, d])
        } else {
            IpAddr::from([0x2001, 0xdb8, u16::from(a), u16::from(b), 0xffff, number as u16, 0, u16::from(d)])
        };
        let tag = if number % 5 == 0 { mixed } else { 0 };
        (source, tagged(mixed as u16, (mixed >> 13) as u16, tag))
    })
}

#[test]
fn a_group_is_steered_as_the_rule_says() {
    for places in [1, 2, 3, 4, 7, 64] {
        let steering = Steering::new(places, 0x1234_5678_9abc ^ u64::from(places));
        let program = group_program(&steering);
        for (source, packet) in senders() {
            let place = run_behind(&program, &ip_header(source), &packet);
            assert_eq!(place, u32::from(steering.place_of(source, &packet)), "{source} {packet:?}");
        }
        assert_eq!(run(&program, &[0; 7]), 0, "too short for a tag");
    }
}

#[test]
fn encrypted_datagrams_are_steered_by_connection() {
    for places in [1, 2, 3, 4, 7, 64] {
        let steering = Steering::new(places, 1).by_connection();
        let program = group_program(&steering);
        for kind in 0..=255 {
            for id in [0_u64, 1, 2, 3, 0xffff_ffff, 0x1234_5678_9abc_def0, u64::MAX] {
                let mut datagram = vec![kind];
                datagram.extend(id.to_be_bytes());
                datagram.push(0);
                let source = IpAddr::from([192, 0, 2, 1]);
                let place = run_behind(&program, &ip_header(source), &datagram);
                assert_eq!(place, u32::from(steering.place_of(source, &datagram)), "{datagram:?}");
                let with_id = (8..=12).contains(&kind);
                let expected = if with_id { steering.place_of_tag(id as u32) } else { 0 };
                assert_eq!(place, u32::from(expected));
            }
        }
        assert_eq!(run(&program, &[8; 8]), 0, "too short for a connection ID");
    }
}

#[test]
fn filter_passes_only_its_place_and_port() {
    let steering = Steering::new(3, 99);
    let ranges = normalised(&[0..=9_999, 20_000..=65_535]);
    for (source, packet) in senders() {
        let ip = ip_header(source);
        let port = u16::from_be_bytes([packet[2], packet[3]]);
        for place in 0..3 {
            let (start, seen) = match source {
                IpAddr::V4(_) => (Start::Ipv4Header, [&ip[..], &packet].concat()),
                IpAddr::V6(_) => (Start::CommonHeader, packet.clone()),
            };
            let mut program = place_program(start, &steering, place);
            program.extend(port_program(start, &ranges));
            let wanted = steering.place_of(source, &packet) == place && !(10_000..20_000).contains(&port);
            let result = run_behind(&program, &ip, &seen);
            assert_eq!(result, if wanted { ACCEPT } else { REJECT }, "{source} {packet:?} at {place}");
        }
    }
}
