//! Packets by a packet socket: they go to the interface with their link-layer and IP headers and bypass the
//! kernel's IP. This is the interface's capacity for a program that does nothing else.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::socket::{LinkAddr, bind};
use socket2::{Domain, Protocol, Socket, Type};

/// Maximum time that the kernel may take to resolve a neighbour.
const NEIGHBOUR_MAX: Duration = Duration::from_secs(2);
const NEIGHBOUR_POLL: Duration = Duration::from_millis(10);
/// The discard service; it need not be running.
const DISCARD: u16 = 9;

/// Opens a socket whose packets leave by the interface towards an address. Returns it with the headers to put
/// before each packet's payload.
pub(crate) fn open(to: IpAddr, protocol: u8, payload_bytes: usize) -> anyhow::Result<(Socket, Vec<u8>)> {
    let IpAddr::V4(to) = to else { anyhow::bail!("packets are IPv4") };
    let (from, station, device) = neighbour(to)?;
    let link = link(&device)?;
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0)));
    let socket = socket.context("a packet socket (it needs CAP_NET_RAW)")?;
    common::enlarge(&socket)?;
    bind(socket.as_raw_fd(), &link).with_context(|| format!("binding to {device}"))?;
    let mut head = Vec::with_capacity(34);
    head.extend(station);
    head.extend(link.addr().with_context(|| format!("{device} has no address"))?);
    head.extend([8, 0]);
    head.extend(ip_header(from, to, protocol, payload_bytes)?);
    Ok((socket, head))
}

/// Returns the local address, the link-layer address and the interface for an address on the same link.
fn neighbour(to: Ipv4Addr) -> anyhow::Result<(Ipv4Addr, [u8; 6], String)> {
    let asking = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    asking.connect((to, DISCARD))?;
    let IpAddr::V4(from) = asking.local_addr()?.ip() else { anyhow::bail!("no way to {to}") };
    let give_up = Instant::now() + NEIGHBOUR_MAX;
    loop {
        // Makes the kernel resolve the neighbour. The answer (nobody listens there) doesn't matter.
        let _ = asking.send(&[0]);
        let table = std::fs::read_to_string("/proc/net/arp")?;
        if let Some((station, device)) = table.lines().find_map(|line| known(line, to)) {
            return Ok((from, station, device));
        }
        ensure!(Instant::now() < give_up, "{to} is not on a link of ours, or doesn't answer");
        std::thread::sleep(NEIGHBOUR_POLL);
    }
}

/// Parses a line of /proc/net/arp: IP address, hardware type, flags (2: complete), hardware address, mask,
/// device.
fn known(line: &str, to: Ipv4Addr) -> Option<([u8; 6], String)> {
    let mut words = line.split_whitespace();
    let is_ours = words.next()?.parse() == Ok(to) && words.nth(1)? != "0x0";
    let mut station = [0; 6];
    for (byte, text) in station.iter_mut().zip(words.next()?.split(':')) {
        *byte = u8::from_str_radix(text, 16).ok()?;
    }
    is_ours.then_some((station, words.nth(1)?.to_owned()))
}

fn link(device: &str) -> anyhow::Result<LinkAddr> {
    let mut interfaces = nix::ifaddrs::getifaddrs()?.filter(|interface| interface.interface_name == device);
    let link = interfaces.find_map(|interface| interface.address?.as_link_addr().copied());
    link.with_context(|| format!("{device} is no interface"))
}

/// Returns an IPv4 header (RFC 791 section 3.1) without options, with the don't-fragment bit.
fn ip_header(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, payload_bytes: usize) -> anyhow::Result<[u8; 20]> {
    const BYTES: usize = 20;
    let mut header = [0; BYTES];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&u16::try_from(BYTES + payload_bytes)?.to_be_bytes());
    header[6] = 0x40;
    header[8] = 64;
    header[9] = protocol;
    header[12..16].copy_from_slice(&from.octets());
    header[16..20].copy_from_slice(&to.octets());
    let words = header.chunks_exact(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    Ok(header)
}
