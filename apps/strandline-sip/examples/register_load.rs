//! REGISTER at a server of one's own, closed loop: how many it answers in a second.
//!
//! `register_load udp|tcp ADDRESS:PORT USERS OUTSTANDING SECONDS [CONNECTIONS]`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::indexing_slicing
)]

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};

const BATCH: usize = 64;

fn request(transport: &str, local: SocketAddr, user: u64, number: u64, out: &mut Vec<u8>) {
    write!(
        out,
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/{transport} {local};branch=z9hG4bK{number};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:u{user}@example.com>;tag={number}\r\nTo: <sip:u{user}@example.com>\r\n\
         Call-ID: c{user}@{local}\r\nCSeq: {number} REGISTER\r\n\
         Contact: <sip:u{user}@{local}>\r\nExpires: 3600\r\nUser-Agent: load\r\nContent-Length: 0\r\n\r\n"
    )
    .unwrap();
}

struct Plan {
    to: SocketAddr,
    users: u64,
    outstanding: usize,
    end: Instant,
}

fn udp(plan: &Plan) -> u64 {
    let socket = UdpSocket::bind((plan.to.ip(), 0)).unwrap();
    socket.connect(plan.to).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let local = socket.local_addr().unwrap();
    let (mut answered, mut number) = (0, 0u64);
    let mut room = vec![0; BATCH * 2048];
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    let mut due = plan.outstanding;
    while Instant::now() < plan.end {
        while due > 0 {
            let count = due.min(BATCH);
            let messages: Vec<Vec<u8>> = (0..count)
                .map(|_| {
                    number += 1;
                    let mut message = Vec::with_capacity(512);
                    request("UDP", local, number % plan.users, number, &mut message);
                    message
                })
                .collect();
            let slices: Vec<[IoSlice<'_>; 1]> =
                messages.iter().map(|message| [IoSlice::new(message)]).collect();
            let none = vec![None::<SockaddrStorage>; count];
            let sent =
                sendmmsg(socket.as_raw_fd(), &mut headers, slices.iter(), &none, [], MsgFlags::empty());
            due -= sent.map(Iterator::count).unwrap_or(0).min(count);
        }
        let mut places: Vec<[IoSliceMut<'_>; 1]> =
            room.chunks_mut(2048).map(|place| [IoSliceMut::new(place)]).collect();
        let got =
            recvmmsg(socket.as_raw_fd(), &mut headers, places.iter_mut(), MsgFlags::MSG_WAITFORONE, None);
        match got {
            Ok(got) => {
                for message in got {
                    let ok = message.iovs().next().is_some_and(|bytes| bytes.starts_with(b"SIP/2.0 200"));
                    answered += u64::from(ok);
                    due += 1;
                }
            }
            Err(_) => due = plan.outstanding,
        }
    }
    answered
}

fn tcp(plan: &Plan, connections: usize) -> u64 {
    let mut streams: Vec<TcpStream> = (0..connections)
        .map(|_| {
            let stream = TcpStream::connect(plan.to).unwrap();
            stream.set_nodelay(true).unwrap();
            stream
        })
        .collect();
    let (mut answered, mut number) = (0, 0u64);
    let mut room = vec![0; 65_536];
    let mut next = 0;
    let mut busy = Vec::new();
    let mut message = Vec::new();
    while Instant::now() < plan.end {
        while busy.len() < plan.outstanding {
            number += 1;
            message.clear();
            let stream = &mut streams[next];
            request("TCP", stream.local_addr().unwrap(), number % plan.users, number, &mut message);
            stream.write_all(&message).unwrap();
            busy.push(next);
            next = (next + 1) % connections;
        }
        let mut fds: Vec<PollFd<'_>> =
            busy.iter().map(|index| PollFd::new(streams[*index].as_fd(), PollFlags::POLLIN)).collect();
        poll(&mut fds, PollTimeout::from(200u16)).unwrap();
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let mut still = Vec::new();
        for (index, ready) in busy.iter().zip(ready) {
            if !ready {
                still.push(*index);
                continue;
            }
            let len = streams[*index].read(&mut room).unwrap();
            answered += room[..len].windows(12).filter(|text| text == b"SIP/2.0 200 ").count() as u64;
        }
        busy = still;
    }
    answered
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |at: usize| args[at].parse::<u64>().unwrap();
    let seconds = number(5);
    let plan = Plan {
        to: args[2].parse().unwrap(),
        users: number(3),
        outstanding: number(4) as usize,
        end: Instant::now() + Duration::from_secs(seconds),
    };
    let answered = match args[1].as_str() {
        "udp" => udp(&plan),
        _ => tcp(&plan, args.get(6).map_or(1000, |_| number(6) as usize)),
    };
    println!("{} answered, {} a second", answered, answered / seconds);
}
