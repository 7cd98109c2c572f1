//! Measures the cost of each kernel interface for sending and receiving packets of IP protocol 132, without SCTP above:
//!
//! ```text
//! E=target/release/examples/raw_paths        # in two network namespaces that a veth pair joins, as root:
//! ip netns exec THERE $E receive raw|ring INTERFACE
//! ip netns exec HERE  $E send raw|header|packet|ring PACKETS SOURCE DESTINATION INTERFACE MAC
//! ```
//!
//! `raw`: sendmmsg and recvmmsg on raw sockets, as in [`strandline_io::RawCarrier`]. `header`: the same with headers
//! made here (IP_HDRINCL). `packet`: sendmmsg on AF_PACKET. `ring`: AF_PACKET with PACKET_TX_RING (TPACKET_V2) or
//! PACKET_RX_RING (TPACKET_V3). Each prints packets for a second and processor time for each packet. What a veth pair
//! does with a packet up to the receiver's socket happens in the sender's time, so only the sum of both sides tells.
//! The figures are in docs/decisions/0014-raw-sockets-for-raw-ip.md.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example")]
#![allow(unsafe_code, reason = "an experiment with system calls")]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::ffi::CString;
use std::io::{Error, Result};
use std::mem::{size_of, size_of_val, zeroed};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

const PACKET_BYTES: usize = 1_480;
const HEADER_BYTES: usize = 20;
const BATCH: usize = 64;
const FRAME_BYTES: usize = 2_048;
const FRAMES: usize = 2_048;
const BLOCK_BYTES: usize = 1 << 18;
const BLOCKS: usize = 64;
/// Offset of the data: the kernel aligns it to 16 bytes after the TPACKET_V2 header, where the address would
/// be.
const DATA_AT: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["receive", "raw", _] => receive_raw(),
        ["receive", "ring", interface] => receive_ring(interface),
        ["send", mode, packets, source, destination, interface, mac] => {
            let number = |text: &str| text.parse().map_err(Error::other);
            let address = |text: &str| text.parse::<Ipv4Addr>().map_err(Error::other);
            let header = header(address(source)?, address(destination)?);
            let to = link_address(interface, mac)?;
            let done = match mode {
                "ring" => send_ring(number(packets)?, header, &to)?,
                _ => send_messages(mode, number(packets)?, header, address(destination)?, &to)?,
            };
            done.print(&format!("send {mode}"));
            Ok(())
        }
        _ => Err(Error::other("see the top of raw_paths.rs")),
    }
}

struct Done {
    start: Instant,
    packets: usize,
}

impl Done {
    fn print(&self, what: &str) {
        let seconds = self.start.elapsed().as_secs_f64();
        // SAFETY: rusage is a plain C struct, and getrusage fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
            usage
        };
        let of = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        let spent = of(usage.ru_utime) + of(usage.ru_stime);
        let packets = self.packets as f64;
        println!("{what}: {:.0} packets/s, {:.0} ns/packet", packets / seconds, spent * 1e9 / packets);
    }
}

fn check(result: i32) -> Result<i32> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(result) }
}

fn socket(family: i32, kind: i32, protocol: i32) -> Result<OwnedFd> {
    // SAFETY: the call has no pointers, and the descriptor is new.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::socket(family, kind, protocol))?)) }
}

fn set<T>(fd: &OwnedFd, level: i32, name: i32, value: &T) -> Result<()> {
    // SAFETY: the value is readable for the given length.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, ptr::from_ref(value).cast(), size_of_val(value) as u32)
    };
    check(result).map(|_| ())
}

/// Attaches a filter, so that a raw socket for sending doesn't fill up with received packets.
fn attach(fd: &OwnedFd, program: &mut [libc::sock_filter]) -> Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn header(source: Ipv4Addr, destination: Ipv4Addr) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&((HEADER_BYTES + PACKET_BYTES) as u16).to_be_bytes());
    bytes[6] = 0x40;
    bytes[8] = 64;
    bytes[9] = 132;
    bytes[12..16].copy_from_slice(&source.octets());
    bytes[16..].copy_from_slice(&destination.octets());
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn link_address(interface: &str, mac: &str) -> Result<libc::sockaddr_ll> {
    let name = CString::new(interface).map_err(Error::other)?;
    // SAFETY: sockaddr_ll is a plain C struct; the name ends with zero.
    let (mut address, index) =
        unsafe { (zeroed::<libc::sockaddr_ll>(), libc::if_nametoindex(name.as_ptr())) };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_IP as u16).to_be();
    address.sll_ifindex = index as i32;
    address.sll_halen = 6;
    for (byte, text) in address.sll_addr.iter_mut().zip(mac.split(':')) {
        *byte = u8::from_str_radix(text, 16).map_err(Error::other)?;
    }
    Ok(address)
}

fn send_messages(
    mode: &str,
    packets: usize,
    header: [u8; HEADER_BYTES],
    destination: Ipv4Addr,
    link: &libc::sockaddr_ll,
) -> Result<Done> {
    let own_header = mode != "raw";
    let fd = match mode {
        "packet" => socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0)?,
        _ => socket(libc::AF_INET, libc::SOCK_RAW, 132)?,
    };
    // The socket accepts no received packets.
    attach(&fd, &mut [libc::sock_filter { code: 6, jt: 0, jf: 0, k: 0 }])?;
    set(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &(4 << 20))?;
    if mode == "header" {
        set(&fd, libc::IPPROTO_IP, libc::IP_HDRINCL, &1)?;
    }
    // SAFETY: sockaddr_in and mmsghdr are plain C structs; every pointer in the headers points to memory that
    // is valid until the end of this function, with its length.
    unsafe {
        let mut to: libc::sockaddr_in = zeroed();
        to.sin_family = libc::AF_INET as u16;
        to.sin_addr.s_addr = u32::from_ne_bytes(destination.octets());
        let (name, name_len) = match mode {
            "packet" => (ptr::from_ref(link).cast_mut().cast(), size_of_val(link)),
            _ => ((&raw mut to).cast(), size_of_val(&to)),
        };
        let mut bytes = vec![0x55_u8; BATCH * FRAME_BYTES];
        let mut vectors: Vec<libc::iovec> = Vec::new();
        for frame in bytes.chunks_mut(FRAME_BYTES) {
            frame[..HEADER_BYTES].copy_from_slice(&header);
            let skipped = if own_header { 0 } else { HEADER_BYTES };
            let iov_len = HEADER_BYTES + PACKET_BYTES - skipped;
            vectors.push(libc::iovec { iov_base: frame[skipped..].as_mut_ptr().cast(), iov_len });
        }
        let mut headers: Vec<libc::mmsghdr> = vec![zeroed(); BATCH];
        for (header, vector) in headers.iter_mut().zip(&mut vectors) {
            header.msg_hdr.msg_name = name;
            header.msg_hdr.msg_namelen = name_len as u32;
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        let mut done = Done { start: Instant::now(), packets: 0 };
        while done.packets < packets {
            match check(libc::sendmmsg(fd.as_raw_fd(), headers.as_mut_ptr(), BATCH as u32, 0)) {
                Ok(sent) => done.packets += sent as usize,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

fn map(fd: &OwnedFd, len: usize) -> Result<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, which stays until the process ends.
    let memory = unsafe { libc::mmap(ptr::null_mut(), len, access, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
    if memory == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(memory.cast()) }
}

fn bind(fd: &OwnedFd, link: &libc::sockaddr_ll) -> Result<()> {
    // SAFETY: the address is as long as the given length.
    check(unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(link).cast(), size_of_val(link) as u32) })
        .map(|_| ())
}

fn send_ring(packets: usize, header: [u8; HEADER_BYTES], link: &libc::sockaddr_ll) -> Result<Done> {
    let fd = socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0)?;
    set(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, &libc::tpacket_versions::TPACKET_V2)?;
    let ring = libc::tpacket_req {
        tp_block_size: 1 << 16,
        tp_block_nr: ((FRAMES * FRAME_BYTES) >> 16) as u32,
        tp_frame_size: FRAME_BYTES as u32,
        tp_frame_nr: FRAMES as u32,
    };
    set(&fd, libc::SOL_PACKET, libc::PACKET_TX_RING, &ring)?;
    let memory = map(&fd, FRAMES * FRAME_BYTES)?;
    bind(&fd, link)?;
    let payload = [0x55_u8; PACKET_BYTES];
    let mut done = Done { start: Instant::now(), packets: 0 };
    let mut at = 0;
    while done.packets < packets {
        for _ in 0..BATCH {
            // SAFETY: frame `at` is within the mapping; the kernel leaves it alone while its status says available,
            // and takes it once the status says otherwise.
            unsafe {
                let frame = memory.add(at * FRAME_BYTES);
                let status = AtomicU32::from_ptr(frame.cast());
                if status.load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE {
                    break;
                }
                ptr::copy_nonoverlapping(header.as_ptr(), frame.add(DATA_AT), HEADER_BYTES);
                ptr::copy_nonoverlapping(payload.as_ptr(), frame.add(DATA_AT + HEADER_BYTES), PACKET_BYTES);
                (*frame.cast::<libc::tpacket2_hdr>()).tp_len = (HEADER_BYTES + PACKET_BYTES) as u32;
                status.store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
            }
            at = (at + 1) % FRAMES;
            done.packets += 1;
        }
        let (name, name_len) = (ptr::from_ref(link).cast(), size_of_val(link) as u32);
        // SAFETY: only the ring is read, and the address, which is as long as the given length.
        unsafe { libc::sendto(fd.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, name, name_len) };
    }
    Ok(done)
}

/// Waits until the descriptor can be read. Returns false if nothing arrived in time.
fn wait(fd: &OwnedFd, begun: bool) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor, one entry.
    unsafe { libc::poll(&raw mut poll, 1, if begun { 700 } else { 10_000 }) > 0 }
}

fn receive_raw() -> Result<()> {
    let fd = socket(libc::AF_INET, libc::SOCK_RAW, 132)?;
    set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &(16 << 20))?;
    let mut bytes = vec![0_u8; BATCH * FRAME_BYTES];
    let mut done = Done { start: Instant::now(), packets: 0 };
    // SAFETY: as in `send_messages`; here the kernel writes into the frames.
    unsafe {
        let mut vectors: Vec<libc::iovec> = bytes
            .chunks_mut(FRAME_BYTES)
            .map(|frame| libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() })
            .collect();
        let mut headers: Vec<libc::mmsghdr> = vec![zeroed(); BATCH];
        for (header, vector) in headers.iter_mut().zip(&mut vectors) {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        loop {
            let (batch, flags) = (BATCH as u32, libc::MSG_DONTWAIT);
            let count = libc::recvmmsg(fd.as_raw_fd(), headers.as_mut_ptr(), batch, flags, ptr::null_mut());
            if count > 0 {
                done.packets += count as usize;
            } else if !wait(&fd, done.packets > 0) {
                break;
            }
        }
    }
    done.print("receive raw");
    Ok(())
}

fn receive_ring(interface: &str) -> Result<()> {
    // Without this socket the kernel would answer with ICMP protocol unreachable.
    let guard = socket(libc::AF_INET, libc::SOCK_RAW, 132)?;
    attach(&guard, &mut [libc::sock_filter { code: 6, jt: 0, jf: 0, k: 0 }])?;
    let fd = socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0)?;
    set(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, &libc::tpacket_versions::TPACKET_V3)?;
    // SAFETY: a plain C struct.
    let mut ring: libc::tpacket_req3 = unsafe { zeroed() };
    ring.tp_block_size = BLOCK_BYTES as u32;
    ring.tp_block_nr = BLOCKS as u32;
    ring.tp_frame_size = FRAME_BYTES as u32;
    ring.tp_frame_nr = (BLOCKS * BLOCK_BYTES / FRAME_BYTES) as u32;
    ring.tp_retire_blk_tov = 1;
    set(&fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &ring)?;
    let memory = map(&fd, BLOCKS * BLOCK_BYTES)?;
    bind(&fd, &link_address(interface, "0:0:0:0:0:0")?)?;
    let mut done = Done { start: Instant::now(), packets: 0 };
    let mut at = 0;
    loop {
        // SAFETY: block `at` is within the mapping; it is ours while its status says so, and the kernel's afterwards.
        unsafe {
            let block = memory.add(at * BLOCK_BYTES).cast::<libc::tpacket_block_desc>();
            let status = AtomicU32::from_ptr(&raw mut (*block).hdr.bh1.block_status);
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                if !wait(&fd, done.packets > 0) {
                    break;
                }
                continue;
            }
            done.packets += (*block).hdr.bh1.num_pkts as usize;
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        at = (at + 1) % BLOCKS;
    }
    done.print("receive ring");
    Ok(())
}
