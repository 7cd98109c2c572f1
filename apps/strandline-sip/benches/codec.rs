//! The cost of reading a request, with all that a proxy or registrar needs of it, compared with other codecs
//! in the same run; and the cost of forwarding and answering it.
//!
//! `cargo bench -p strandline-sip` prints nanoseconds for each message, as medians of alternating runs, and
//! allocations. A word after `--` selects the cases whose name contains it, for example to run them under
//! callgrind.
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark")]

use std::hint::black_box;
use std::time::Instant;

use allocation_counter::measure;
use bytes::{Bytes, BytesMut};
use strandline_sip::codec::{
    Cut, Edits, HeaderName, Host, Index, Limits, Message, NewVia, Reply, Side, StartLine, StatusCode,
    StreamFramer, Transport,
};

#[path = "../tests/oracle/mod.rs"]
mod oracle;

/// A short REGISTER that refreshes a binding, without optional features.
const REFRESHING: &[u8] = b"REGISTER sip:example.com SIP/2.0\r\n\
    Via: SIP/2.0/TCP 127.0.0.2:50506;branch=z9hG4bKr000000.1.1;rport\r\nMax-Forwards: 70\r\n\
    From: <sip:u0@example.com>;tag=1\r\nTo: <sip:u0@example.com>\r\n\
    Call-ID: r0-1795391738819@127.0.0.2:50506\r\nCSeq: 1 REGISTER\r\n\
    Contact: <sip:u0@127.0.0.2:50506;transport=tcp>\r\nExpires: 3600\r\nContent-Length: 0\r\n\r\n";

const RUNS: usize = 101;
const MESSAGES: u32 = 1_000;

struct Case {
    name: &'static str,
    work: Box<dyn FnMut()>,
}

fn case(name: &'static str, work: impl FnMut() + 'static) -> Case {
    Case { name, work: Box::new(work) }
}

fn run(work: &mut dyn FnMut(), messages: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..messages {
        work();
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(messages)
}

fn table(title: &str, mut cases: Vec<Case>) {
    if let Some(word) = std::env::args().skip(1).find(|word| !word.starts_with('-')) {
        cases.retain(|case| case.name.contains(&word));
    }
    let mut times = vec![Vec::new(); cases.len()];
    for case in &mut cases {
        run(&mut case.work, MESSAGES / 10);
    }
    for _ in 0..RUNS {
        for (case, times) in cases.iter_mut().zip(&mut times) {
            times.push(run(&mut case.work, MESSAGES));
        }
    }
    println!("{title:<58} {:>10} {:>10} {:>12}", "ns", "best", "allocations");
    for (case, times) in cases.iter_mut().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let counted = measure(|| {
            run(&mut case.work, 100);
        });
        let allocations = counted.count_total as f64 / 100.0;
        println!("  {:<56} {:>10.0} {:>10.0} {allocations:>12}", case.name, times[RUNS / 2], times[0]);
    }
}

/// The headers that a registrar behind a proxy reads.
fn read_register(bytes: &[u8], index: &mut Index) {
    let message = Message::parse(bytes, index).unwrap();
    let essentials = message.essentials().unwrap();
    for contact in message.contacts().unwrap() {
        let contact = contact.unwrap();
        black_box((contact.sip_uri().unwrap(), contact.expires().unwrap()));
    }
    black_box((essentials, message.expires().unwrap()));
}

/// The headers that a proxy reads.
fn read_invite(bytes: &[u8], index: &mut Index) {
    let message = Message::parse(bytes, index).unwrap();
    let essentials = message.essentials().unwrap();
    let route = message.routes().next().map(|route| route.unwrap().sip_uri().unwrap());
    black_box((essentials, route, message.proxy_require().next()));
}

fn index_only(bytes: &[u8], index: &mut Index) {
    black_box(Message::parse(bytes, index).unwrap());
}

fn essentials(bytes: &[u8], index: &mut Index) {
    let message = Message::parse(bytes, index).unwrap();
    black_box(message.essentials().unwrap());
}

fn forward(bytes: &[u8], index: &mut Index, out: &mut BytesMut) {
    let message = Message::parse(bytes, index).unwrap();
    let via = NewVia {
        transport: Transport::Udp,
        host: Host::Name(b"proxy.example.com"),
        port: None,
        branch: b"5f2a8c41d37b",
        rport: false,
        params: b"",
    };
    out.clear();
    let mut edits = Edits::new(message);
    edits.push_via(&via).push_record_route(b"<sip:proxy.example.com;lr>").decrement_max_forwards(70);
    edits.source("192.0.2.44:5066".parse().unwrap()).pop_route();
    edits.write(out).unwrap();
    black_box(&out);
}

fn answer(bytes: &[u8], index: &mut Index, out: &mut BytesMut) {
    let request = Message::parse(bytes, index).unwrap();
    out.clear();
    let source = "192.0.2.44:49152".parse().ok();
    let reply = Reply { to_tag: Some(b"8f3a"), source, ..Reply::new(StatusCode::OK) };
    reply.write(&request, out).finish(b"").unwrap();
    black_box(&out);
}

/// The codec's part in a REGISTER that refreshes a binding: framing, classifying, reading and answering.
fn refresh(bytes: &[u8], framer: &mut StreamFramer, index: &mut Index, out: &mut BytesMut) {
    let cut = framer.cut(bytes).unwrap();
    assert_eq!(cut, Cut::Message { len: bytes.len() });
    black_box(StartLine::parse(bytes).unwrap());
    let message = Message::parse(bytes, index).unwrap();
    let essentials = message.essentials().unwrap();
    black_box((essentials.to.sip_uri().unwrap(), essentials.from.sip_uri().unwrap()));
    black_box((message.require().next(), message.supported().next(), message.paths().next()));
    let contact = message.contacts().unwrap().next().unwrap().unwrap();
    black_box((contact.sip_uri().unwrap(), contact.expires().unwrap(), message.expires().unwrap()));
    out.clear();
    let source = Some(([127, 0, 0, 2], 50_506).into());
    let reply = Reply { to_tag: Some(b"b3b4e510bd5b482e"), source, ..Reply::new(StatusCode::OK) };
    let mut writer = reply.write(&message, out);
    writer.header_of(HeaderName::Contact, &[b"<", contact.uri_bytes(), b">", b";expires=", b"3600"]);
    writer.finish(b"").unwrap();
    black_box(&out);
}

fn ours(bytes: &'static [u8], read: fn(&[u8], &mut Index), name: &'static str) -> Case {
    let mut index = Index::new();
    case(name, move || read(black_box(bytes), &mut index))
}

fn others(bytes: &'static [u8]) -> [Case; 2] {
    let shared = Bytes::from_static(bytes);
    [
        case("rsip 0.4: the same headers", move || {
            black_box(oracle::rsip(black_box(bytes)).unwrap());
        }),
        case("ezk-sip-types 0.6: the same headers", move || {
            black_box(oracle::ezk(black_box(&shared)).unwrap());
        }),
    ]
}

fn reading(title: &str, bytes: &'static [u8], read: fn(&[u8], &mut Index)) {
    let mut cases = vec![
        case("first line only", move || {
            black_box(StartLine::parse(black_box(bytes)).unwrap());
        }),
        ours(bytes, index_only, "index of all headers"),
        ours(bytes, essentials, "with what every message must have"),
        ours(bytes, read, "with what the server needs"),
    ];
    cases.extend(others(bytes));
    table(title, cases);
}

fn main() {
    reading(&format!("REGISTER, {} bytes", oracle::REGISTER.len()), oracle::REGISTER, read_register);
    reading(&format!("INVITE, {} bytes", oracle::INVITE.len()), oracle::INVITE, read_invite);

    let (mut index, mut out) = (Index::new(), BytesMut::with_capacity(4096));
    let forwarding = case("INVITE parsed, edited and written", move || {
        forward(black_box(oracle::INVITE), &mut index, &mut out);
    });
    let (mut index, mut out) = (Index::new(), BytesMut::with_capacity(4096));
    let answering = case("REGISTER parsed and answered with 200", move || {
        answer(black_box(oracle::REGISTER), &mut index, &mut out);
    });
    let (mut index, mut out) = (Index::new(), BytesMut::with_capacity(4096));
    let mut framer = StreamFramer::new(Side::Accepted, Limits::default());
    let refreshing = case("refreshing REGISTER cut, sorted, read and answered", move || {
        refresh(black_box(REFRESHING), &mut framer, &mut index, &mut out);
    });
    let mut framer = StreamFramer::new(Side::Accepted, Limits::default());
    let framing = case("INVITE cut out of a stream", move || {
        let cut = framer.cut(black_box(oracle::INVITE)).unwrap();
        assert_eq!(cut, Cut::Message { len: oracle::INVITE.len() });
    });
    table("Writing and framing", vec![forwarding, answering, refreshing, framing]);
}
