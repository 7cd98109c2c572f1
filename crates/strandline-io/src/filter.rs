//! Classic BPF programs that the kernel runs on what arrives: which packets a raw socket gets, and which socket of a
//! group gets a datagram.

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;

use libc::sock_filter;

use crate::sys::option;

/// Most ranges in a program. More are joined over the smallest gaps between them: the filter lets a few packets more
/// pass. The limit keeps the program within what `net.core.optmem_max` allows on older kernels.
const RANGES_MAX: usize = 256;
/// Up to so many ranges are tried one after the other; more are divided in two first.
const LEAF_MAX: usize = 4;

/// Accepts the whole packet.
const ACCEPT: u32 = u32::MAX;
const REJECT: u32 = 0;
/// A socket that no group has: the kernel then chooses by its hash of addresses and ports.
const NO_SOCKET: u32 = u32::MAX;

const fn instruction(code: u32, k: u32, jump_true: u8, jump_false: u8) -> sock_filter {
    sock_filter { code: code as u16, jt: jump_true, jf: jump_false, k }
}

const fn statement(code: u32, k: u32) -> sock_filter {
    instruction(code, k, 0, 0)
}

/// What a raw socket's program sees first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// The IPv4 header: raw IPv4 sockets.
    Ipv4Header,
    /// SCTP's common header: raw IPv6 sockets.
    CommonHeader,
}

/// Lets only SCTP packets pass whose destination port is in one of the ranges.
pub(crate) fn attach_ports(
    fd: BorrowedFd<'_>,
    start: Start,
    ports: &[RangeInclusive<u16>],
) -> io::Result<()> {
    let ranges = normalised(ports);
    if ranges == [(0, u16::MAX)] {
        return match option::set_int(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(()),
        };
    }
    option::attach(fd, libc::SO_ATTACH_FILTER, &port_program(start, &ranges))
}

/// Steers each datagram of a UDP group by bits of the verification tag: `mask` after shifting right by `shift`.
pub(crate) fn attach_steering(fd: BorrowedFd<'_>, shift: u32, mask: u32) -> io::Result<()> {
    option::attach(fd, libc::SO_ATTACH_REUSEPORT_CBPF, &steering_program(shift, mask))
}

/// Sorted, joined where they touch, and at most [`RANGES_MAX`].
fn normalised(ports: &[RangeInclusive<u16>]) -> Vec<(u16, u16)> {
    let mut sorted: Vec<_> =
        ports.iter().filter(|range| !range.is_empty()).map(|range| (*range.start(), *range.end())).collect();
    sorted.sort_unstable();
    let mut joined: Vec<(u16, u16)> = Vec::with_capacity(sorted.len());
    for (first, last) in sorted {
        match joined.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    let excess = joined.len().saturating_sub(RANGES_MAX);
    if excess > 0 {
        // As many of the smallest gaps are closed as there are ranges too many.
        let mut gaps: Vec<u16> = joined.windows(2).map(gap).collect();
        gaps.sort_unstable();
        let widest = gaps.get(excess - 1).copied().unwrap_or(u16::MAX);
        let mut of_widest = excess - gaps.partition_point(|gap| *gap < widest);
        joined.dedup_by(|next, before| {
            let gap = next.0 - before.1;
            let close = gap < widest || (gap == widest && of_widest > 0);
            if close {
                of_widest -= usize::from(gap == widest);
                before.1 = next.1;
            }
            close
        });
    }
    joined
}

fn gap(pair: &[(u16, u16)]) -> u16 {
    match pair {
        [before, next] => next.0 - before.1,
        _ => u16::MAX,
    }
}

fn port_program(start: Start, ranges: &[(u16, u16)]) -> Vec<sock_filter> {
    // The destination port is at offset 2 of the common header. A packet too short for it is rejected by the load.
    let mut program = match start {
        Start::Ipv4Header => vec![
            // X = length of the IP header
            statement(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0),
            statement(libc::BPF_LD | libc::BPF_H | libc::BPF_IND, 2),
        ],
        Start::CommonHeader => vec![statement(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 2)],
    };
    program.extend(search(ranges));
    program
}

/// Instructions that accept if A is in one of the ranges, and otherwise reject.
fn search(ranges: &[(u16, u16)]) -> Vec<sock_filter> {
    const JUMP: u32 = libc::BPF_JMP | libc::BPF_K;
    let middle = ranges.len() / 2;
    if let (Some(pivot), true) = (ranges.get(middle), ranges.len() > LEAF_MAX) {
        let (left, right) = ranges.split_at(middle);
        let (left, right) = (search(left), search(right));
        // The jump over the left half may be longer than a conditional jump can be.
        let mut program = vec![
            instruction(JUMP | libc::BPF_JGE, u32::from(pivot.0), 0, 1),
            statement(libc::BPF_JMP | libc::BPF_JA, left.len() as u32),
        ];
        program.extend(left);
        program.extend(right);
        return program;
    }
    let mut program = Vec::with_capacity(ranges.len() * 3 + 1);
    for &(first, last) in ranges {
        if first == last {
            program.push(instruction(JUMP | libc::BPF_JEQ, u32::from(first), 0, 1));
        } else {
            program.push(instruction(JUMP | libc::BPF_JGE, u32::from(first), 0, 2));
            program.push(instruction(JUMP | libc::BPF_JGT, u32::from(last), 1, 0));
        }
        program.push(statement(libc::BPF_RET | libc::BPF_K, ACCEPT));
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, REJECT));
    program
}

fn steering_program(shift: u32, mask: u32) -> [sock_filter; 6] {
    [
        // The verification tag is at offset 4 of the UDP payload.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 4),
        // INIT has none.
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 3, 0),
        statement(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, shift),
        statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask),
        statement(libc::BPF_RET | BPF_A, 0),
        statement(libc::BPF_RET | libc::BPF_K, NO_SOCKET),
    ]
}

/// Return the accumulator (linux/filter.h).
const BPF_A: u32 = 0x10;

#[cfg(test)]
mod tests;
