use super::*;

/// Runs a program as the kernel does, on the instructions that are used here. `None`: a load beyond the packet.
fn run(program: &[sock_filter], packet: &[u8]) -> u32 {
    let (mut a, mut x, mut at) = (0_u32, 0_u32, 0_usize);
    let load = |offset: u32, len: usize| {
        let bytes = packet.get(offset as usize..offset as usize + len)?;
        Some(bytes.iter().fold(0_u32, |value, byte| value << 8 | u32::from(*byte)))
    };
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        let branch = |yes: bool| usize::from(if yes { jt } else { jf });
        let loaded = match u32::from(code) {
            0x20 => load(k, 4),
            0x28 => load(k, 2),
            0x48 => load(x + k, 2),
            0xb1 => {
                let Some(byte) = load(k, 1) else { return 0 };
                x = (byte & 0xf) * 4;
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
            0x54 => Some(a & k),
            0x74 => Some(a >> k),
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
fn too_many_ranges_are_joined_over_the_smallest_gaps() {
    // 300 pairs of close ports, far from one another.
    let ports: Vec<_> =
        (0..300_u16).flat_map(|index| [index * 200, index * 200 + 2]).map(|port| port..=port).collect();
    let ranges = normalised(&ports);
    let passing = accepted(&ports);
    assert!(ports.iter().all(|range| passing.binary_search(range.start()).is_ok()));
    // 344 gaps are closed: the 300 of 2, and 44 of the 299 that are all 198 wide.
    assert_eq!((ranges.len(), passing.len()), (RANGES_MAX, 300 * 3 + 44 * 197));
    // Gaps that grow: the first ones are closed.
    let ports: Vec<_> =
        (0..350_u32).map(|index| (index * (index + 1) / 2) as u16).map(|port| port..=port).collect();
    assert_eq!(normalised(&ports).len(), RANGES_MAX);
    assert_eq!(accepted(&ports).len(), 94 * 95 / 2 + 1 + 255);
}

#[test]
fn behind_an_ipv4_header_with_options_the_port_is_found() {
    let program = port_program(Start::Ipv4Header, &normalised(&[5_060..=5_060]));
    for words in 5..=15_u8 {
        let mut bytes = vec![0xff; usize::from(words) * 4];
        bytes[0] = 0x40 | words;
        assert_eq!(run(&program, &[&bytes[..], &packet(5_060)].concat()), ACCEPT);
        assert_eq!(run(&program, &[&bytes[..], &packet(5_061)].concat()), REJECT);
        assert_eq!(run(&program, &bytes), REJECT);
    }
}

#[test]
fn datagrams_are_steered_by_their_tag() {
    let program = steering_program(28, 0b111);
    let with_tag = |tag: u32| [&[0, 1, 0, 2][..], &tag.to_be_bytes(), &[0; 4]].concat();
    assert_eq!(run(&program, &with_tag(0x5fff_ffff)), 5);
    assert_eq!(run(&program, &with_tag(0xf000_0001)), 7);
    assert_eq!(run(&program, &with_tag(0)), NO_SOCKET);
}
