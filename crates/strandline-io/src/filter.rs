//! Classic BPF programs that the kernel runs on received packets: port filters of raw sockets, and the choice
//! of a socket in a group.

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;

use libc::sock_filter;

use self::place::{generations_program, group_program, place_program};
use crate::bpf::{ACCEPT, REJECT, Start, instruction, statement};
use crate::steering::Steering;
use crate::sys::option;

mod place;

pub(crate) use self::place::Sockets;

/// Maximum number of ranges in a program. Further ranges are joined across the smallest gaps between them, so
/// that the filter accepts a few more packets. The limit keeps the program within what `net.core.optmem_max`
/// allows on older kernels.
const RANGES_MAX: usize = 256;
/// Maximum number of ranges that are tested one after the other; more are bisected first.
const LEAF_MAX: usize = 4;

/// Accepts only SCTP packets whose destination port is in one of the ranges and, if a shard is given, that
/// are for this shard.
pub(crate) fn attach_ports(
    fd: BorrowedFd<'_>,
    start: Start,
    ports: &[RangeInclusive<u16>],
    place: Option<(&Steering, u16)>,
) -> io::Result<()> {
    let ranges = normalised(ports);
    if ranges == [(0, u16::MAX)] && place.is_none() {
        return match option::set_int(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(()),
        };
    }
    let mut program = Vec::new();
    if let Some((steering, place)) = place {
        program = place_program(start, steering, place);
    }
    program.extend(port_program(start, &ranges));
    option::attach(fd, libc::SO_ATTACH_FILTER, &program)
}

/// Steers each datagram of a UDP group to the socket of its shard.
pub(crate) fn attach_steering(fd: BorrowedFd<'_>, steering: &Steering) -> io::Result<()> {
    option::attach(fd, libc::SO_ATTACH_REUSEPORT_CBPF, &group_program(steering))
}

/// Steers each datagram of a UDP group that several processes share to the socket of its process and shard.
pub(crate) fn attach_generations(
    fd: BorrowedFd<'_>,
    steering: &Steering,
    newest: &Sockets,
    others: &[Sockets],
) -> io::Result<()> {
    option::attach(fd, libc::SO_ATTACH_REUSEPORT_CBPF, &generations_program(steering, newest, others))
}

/// Returns the ranges sorted, joined where they touch, and at most [`RANGES_MAX`] of them.
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
        // Closes as many of the smallest gaps as there are ranges too many.
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
    // The destination port is at offset 2 of the common header. The load rejects a packet too short for it.
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

/// Returns instructions that accept if A is in one of the ranges, and otherwise reject.
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

#[cfg(test)]
mod tests;
