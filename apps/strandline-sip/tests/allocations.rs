//! Reading, forwarding, responding and framing allocate nothing for each message, once the index and the
//! buffer have grown to the size of the messages.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use allocation_counter::measure;
use bytes::BytesMut;
use strandline_sip::codec::{
    Cut, Edits, Host, Index, Limits, Message, NewVia, Reply, Side, StatusCode, StreamFramer, Transport,
};

#[path = "oracle/mod.rs"]
mod oracle;

const MESSAGES: usize = 1_000;

/// Runs `work` once to warm up, then counts the allocations of further runs.
fn allocations(mut work: impl FnMut()) -> u64 {
    work();
    measure(|| (0..MESSAGES).for_each(|_| work())).count_total
}

#[test]
fn reading_a_register_allocates_nothing() {
    let mut index = Index::new();
    let count = allocations(|| {
        let message = Message::parse(oracle::REGISTER, &mut index).unwrap();
        let essentials = message.essentials().unwrap();
        assert_eq!(essentials.cseq.number, 1826);
        let contact = message.contacts().unwrap().next().unwrap().unwrap();
        assert!(contact.sip_uri().unwrap().is_outbound());
        assert_eq!((contact.reg_id().unwrap(), contact.expires().unwrap()), (Some(1), Some(600)));
        assert_eq!(contact.instance().unwrap().len(), 45);
        assert!(message.supported().any(|token| token.unwrap().is(b"Path")));
        assert_eq!(message.expires().unwrap().unwrap().0, 600);
    });
    assert_eq!(count, 0);
}

#[test]
fn forwarding_an_invite_allocates_nothing() {
    let (mut index, mut out) = (Index::new(), BytesMut::with_capacity(2048));
    let count = allocations(|| {
        let message = Message::parse(oracle::INVITE, &mut index).unwrap();
        message.essentials().unwrap();
        let transport = Transport::Sctp;
        let host = Host::V6("2001:db8::7".parse().unwrap());
        let via = NewVia { transport, host, port: Some(5070), branch: b"1", rport: true, params: b"" };
        let mut edits = Edits::new(message);
        edits.push_via(&via).push_record_route(b"<sip:p.example;lr>").decrement_max_forwards(70).pop_route();
        edits.source("[2001:db8::9]:5060".parse().unwrap());
        out.clear();
        edits.write(&mut out).unwrap();
    });
    assert_eq!(count, 0);
    assert!(out.len() > oracle::INVITE.len());
}

#[test]
fn answering_allocates_nothing() {
    let (mut index, mut out) = (Index::new(), BytesMut::with_capacity(2048));
    let count = allocations(|| {
        let request = Message::parse(oracle::REGISTER, &mut index).unwrap();
        let source = "192.0.2.44:49152".parse().ok();
        let reply = Reply { to_tag: Some(b"1"), source, ..Reply::new(StatusCode::OK) };
        out.clear();
        reply.write(&request, &mut out).finish(b"").unwrap();
    });
    assert_eq!(count, 0);
}

#[test]
fn framing_allocates_nothing() {
    let mut framer = StreamFramer::new(Side::Accepted, Limits::default());
    let count = allocations(|| {
        for end in (0..oracle::INVITE.len()).step_by(50) {
            assert_eq!(framer.cut(&oracle::INVITE[..end]).unwrap(), Cut::Incomplete);
        }
        assert_eq!(framer.cut(oracle::INVITE).unwrap(), Cut::Message { len: oracle::INVITE.len() });
    });
    assert_eq!(count, 0);
}

/// Rejecting allocates nothing, so a flood of malformed messages costs no memory.
#[test]
fn rejecting_allocates_nothing() {
    let mut index = Index::new();
    let vias = [&b"OPTIONS sip:a SIP/2.0\r\n"[..], &b"Via: SIP/2.0/UDP a\r\n".repeat(10_000)].concat();
    let count = allocations(|| {
        assert!(Message::parse(&oracle::INVITE[..300], &mut index).is_err());
        assert!(Message::parse(b"OPTIONS sip:a SIP/2.0\r\nx\r\n\r\n", &mut index).is_err());
        let rejected = Message::parse(&vias, &mut index).unwrap_err();
        assert_eq!(rejected.error.status(), StatusCode::MESSAGE_TOO_LARGE);
        assert!(rejected.answerable().is_some());
    });
    assert_eq!(count, 0);
}
