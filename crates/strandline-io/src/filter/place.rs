//! BPF programs for [`Steering`].

use libc::sock_filter;

use crate::bpf::{REJECT, Start, instruction, statement};
use crate::steering::{CONNECTION_KINDS, GENERATION_MASK, INITIAL_KIND, Steering, bits_of};

const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const ALU: u32 = libc::BPF_ALU | libc::BPF_K;
const JUMP_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const JUMP_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const JUMP_GREATER: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
/// Return the accumulator (linux/filter.h).
const RETURN_A: u32 = libc::BPF_RET | 0x10;

/// Offset of the IP header (linux/filter.h): loads with this base count from there.
const IP_HEADER: u32 = libc::SKF_NET_OFF as u32;
/// Offset of the source address in the IP header.
const V4_SOURCE: u32 = 12;
const V6_SOURCE: u32 = 8;
/// Offset of the verification tag in the common header.
const TAG: u32 = 4;
/// Offset of the low half of a connection ID.
const CONNECTION_ID_LOW: u32 = 5;

/// The start of the packet that the program sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// The common header; the IP header, of either version, lies before it.
    Payload,
    /// The common header, after an IPv6 header.
    PayloadV6,
    /// The IPv4 header.
    HeaderV4,
}

/// Returns a program that returns the shard of a datagram, for a group of UDP sockets.
pub(super) fn group_program(steering: &Steering) -> Vec<sock_filter> {
    let mut program = if steering.by_connection {
        place_of_connection(steering)
    } else {
        place_of_packet(Layout::Payload, steering)
    };
    program.push(statement(RETURN_A, 0));
    program
}

/// A generation of a group: for each of its places, the index of its socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sockets {
    pub(crate) generation: u8,
    pub(crate) by_place: Vec<u32>,
}

/// Returns a program that returns the index of a datagram's socket: that of its generation and place, and of the newest
/// generation, whose rule is `steering`, if it has none or one that has ended.
pub(super) fn generations_program(
    steering: &Steering,
    newest: &Sockets,
    others: &[Sockets],
) -> Vec<sock_filter> {
    let new = if steering.by_connection {
        // The connection ID is in A, or no ID was found and this place is as good as any.
        vec![
            statement(LOAD_BYTE, 0),
            instruction(JUMP_AT_LEAST, u32::from(*CONNECTION_KINDS.start()), 0, 2),
            instruction(JUMP_GREATER, u32::from(*CONNECTION_KINDS.end()), 1, 0),
            statement(libc::BPF_JMP | libc::BPF_JA, 1),
            statement(libc::BPF_RET | libc::BPF_K, newest.by_place.first().copied().unwrap_or(0)),
            statement(LOAD_WORD, CONNECTION_ID_LOW),
        ]
    } else {
        home(Layout::Payload, steering)
    };
    let mut by_new = new;
    if steering.by_connection {
        by_new.extend(place_bits(steering.places()));
    } else {
        by_new.push(statement(ALU | libc::BPF_MOD, u32::from(steering.places())));
    }
    by_new.extend(by_place(newest));
    let mut by_tag = Vec::new();
    for sockets in others.iter().chain([newest]) {
        let mut block =
            vec![statement(LOAD_WORD, if steering.by_connection { CONNECTION_ID_LOW } else { TAG })];
        block.extend(place_bits(sockets.by_place.len() as u16));
        block.extend(by_place(sockets));
        // A conditional jump over the block may be too short.
        by_tag.push(instruction(JUMP_EQUAL, u32::from(sockets.generation), 1, 0));
        by_tag.push(statement(libc::BPF_JMP | libc::BPF_JA, block.len() as u32));
        by_tag.extend(block);
    }
    let mut program = if steering.by_connection {
        vec![
            // Others than datagrams to a connection ID of this side are new.
            statement(LOAD_BYTE, 0),
            instruction(JUMP_GREATER, u32::from(INITIAL_KIND), 0, 1),
            instruction(JUMP_GREATER, u32::from(*CONNECTION_KINDS.end()), 0, 1),
            statement(libc::BPF_JMP | libc::BPF_JA, by_tag.len() as u32 + 2),
            statement(LOAD_WORD, CONNECTION_ID_LOW),
        ]
    } else {
        vec![
            statement(LOAD_WORD, TAG),
            instruction(JUMP_EQUAL, 0, 0, 1),
            statement(libc::BPF_JMP | libc::BPF_JA, by_tag.len() as u32 + 1),
        ]
    };
    program.push(statement(ALU | libc::BPF_AND, GENERATION_MASK));
    program.extend(by_tag);
    program.extend(by_new);
    program
}

/// Returns instructions that leave the place that a tag in A names, behind its generation.
fn place_bits(places: u16) -> [sock_filter; 3] {
    [
        statement(ALU | libc::BPF_RSH, GENERATION_MASK.count_ones()),
        statement(ALU | libc::BPF_AND, (1 << bits_of(places)) - 1),
        statement(ALU | libc::BPF_MOD, u32::from(places.max(1))),
    ]
}

/// Returns instructions that return the index of the socket of the place in A.
fn by_place(sockets: &Sockets) -> Vec<sock_filter> {
    let (first, rest) = sockets.by_place.split_first().map_or((0, &[][..]), |(first, rest)| (*first, rest));
    let of_place = |(place, index): (u32, &u32)| {
        [instruction(JUMP_EQUAL, place, 0, 1), statement(libc::BPF_RET | libc::BPF_K, *index)]
    };
    let mut program: Vec<sock_filter> = (1..).zip(rest).flat_map(of_place).collect();
    program.push(statement(libc::BPF_RET | libc::BPF_K, first));
    program
}

/// Returns instructions that reject packets for other shards, and continue after the last instruction for
/// packets of this one.
pub(super) fn place_program(start: Start, steering: &Steering, place: u16) -> Vec<sock_filter> {
    let layout = match start {
        Start::Ipv4Header => Layout::HeaderV4,
        Start::CommonHeader => Layout::PayloadV6,
    };
    let mut program = place_of_packet(layout, steering);
    program.push(instruction(JUMP_EQUAL, u32::from(place), 1, 0));
    program.push(statement(libc::BPF_RET | libc::BPF_K, REJECT));
    program
}

/// Returns instructions that leave the shard of an encrypted datagram in A, or return 0 for any other.
fn place_of_connection(steering: &Steering) -> Vec<sock_filter> {
    let (first, last) = (*CONNECTION_KINDS.start(), *CONNECTION_KINDS.end());
    vec![
        statement(LOAD_BYTE, 0),
        instruction(JUMP_AT_LEAST, u32::from(first), 0, 1),
        instruction(JUMP_GREATER, u32::from(last), 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, 0),
        statement(LOAD_WORD, CONNECTION_ID_LOW),
        statement(ALU | libc::BPF_AND, steering.place_mask()),
        statement(ALU | libc::BPF_MOD, u32::from(steering.places())),
    ]
}

/// Returns instructions that leave the shard in A. A packet too short for a load makes the whole program
/// return 0.
fn place_of_packet(layout: Layout, steering: &Steering) -> Vec<sock_filter> {
    let by_hash = home(layout, steering);
    let by_tag = [
        statement(ALU | libc::BPF_AND, steering.place_mask()),
        statement(libc::BPF_JMP | libc::BPF_JA, by_hash.len() as u32),
    ];
    let mut program = match layout {
        Layout::HeaderV4 => vec![
            // X = length of the IP header
            statement(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0),
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_IND, TAG),
        ],
        _ => vec![statement(LOAD_WORD, TAG)],
    };
    program.push(instruction(JUMP_EQUAL, 0, by_tag.len() as u8, 0));
    program.extend(by_tag);
    program.extend(by_hash);
    program.push(statement(ALU | libc::BPF_MOD, u32::from(steering.places())));
    program
}

/// Returns instructions that leave the 16-bit hash of an INIT in A.
fn home(layout: Layout, steering: &Steering) -> Vec<sock_filter> {
    let v4 = address(V4_SOURCE, &steering.address[..2]);
    let v6 = address(V6_SOURCE, &steering.address);
    let mut program = ports(layout, steering);
    match layout {
        Layout::HeaderV4 => program.extend(v4),
        Layout::PayloadV6 => program.extend(v6),
        Layout::Payload => {
            program.extend([
                statement(LOAD_BYTE, IP_HEADER),
                statement(ALU | libc::BPF_RSH, 4),
                instruction(JUMP_EQUAL, 6, v4.len() as u8 + 1, 0),
            ]);
            program.extend(v4);
            program.push(statement(libc::BPF_JMP | libc::BPF_JA, v6.len() as u32));
            program.extend(v6);
        }
    }
    // The sum is in X.
    program.push(statement(libc::BPF_MISC | libc::BPF_TXA, 0));
    program.push(statement(ALU | libc::BPF_RSH, 16));
    program
}

/// Returns instructions that leave the sum of start, source port and destination port, each port times its
/// multiplier, in X.
fn ports(layout: Layout, steering: &Steering) -> Vec<sock_filter> {
    let [source, destination] = steering.ports;
    let load = match layout {
        Layout::HeaderV4 => libc::BPF_LD | libc::BPF_H | libc::BPF_IND,
        _ => LOAD_HALF,
    };
    vec![
        // X holds the header's length where there is one, so the first product is kept in memory.
        statement(load, 0),
        statement(ALU | libc::BPF_MUL, source),
        statement(ALU | libc::BPF_ADD, steering.start),
        statement(libc::BPF_ST, 0),
        statement(load, 2),
        statement(ALU | libc::BPF_MUL, destination),
        statement(libc::BPF_LDX | libc::BPF_W | libc::BPF_MEM, 0),
        statement(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X, 0),
        statement(libc::BPF_MISC | libc::BPF_TAX, 0),
    ]
}

/// Returns instructions that add the words of an address in the IP header, each times its multiplier, to X.
fn address(offset: u32, multipliers: &[u32]) -> Vec<sock_filter> {
    let word = |(index, multiplier): (usize, &u32)| {
        [
            statement(LOAD_HALF, IP_HEADER + offset + 2 * index as u32),
            statement(ALU | libc::BPF_MUL, *multiplier),
            statement(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X, 0),
            statement(libc::BPF_MISC | libc::BPF_TAX, 0),
        ]
    };
    multipliers.iter().enumerate().flat_map(word).collect()
}
