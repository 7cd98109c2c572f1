#![allow(clippy::unwrap_used)]

use super::*;

fn end(protocol: Protocol, address: &str, host: u32) -> End {
    let flow = Flow { connection: u64::MAX, domain: 7, ..Flow::to(protocol, address.parse().unwrap()) };
    End { flow, host }
}

fn text(tokens: &Tokens, caller: &End, callee: &End, tag: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    tokens.write(caller, callee, tag, &mut text);
    text
}

#[test]
fn the_longest_token_comes_back_whole() {
    let tokens = Tokens::new([5; 16]);
    let (caller, callee) = (
        end(Protocol::Tls, "[2001:db8::ffff:ffff:ffff:ffff]:65535", u32::MAX),
        end(Protocol::Wss, "[2001:db8::1]:65534", 9),
    );
    let read = tokens.read(&text(&tokens, &caller, &callee, b"a")).unwrap();
    assert_eq!((read.caller.flow.peer, read.caller.host), (caller.flow.peer, u32::MAX));
    assert_eq!((read.callee.flow.peer, read.callee.host), (callee.flow.peer, 9));
    assert_eq!(read.callee.flow.connection, u64::MAX);
    assert_eq!(tokens.far_end(&read, b"a"), read.callee);
    assert_eq!(tokens.far_end(&read, b"b"), read.caller);
}

#[test]
fn callee_tag_is_not_taken_for_callers() {
    let tokens = Tokens::new([5; 16]);
    let (caller, callee) = (end(Protocol::Udp, "192.0.2.1:5060", 0), end(Protocol::Udp, "192.0.2.2:5060", 0));
    let read = tokens.read(&text(&tokens, &caller, &callee, b"caller")).unwrap();
    let mixed_up = (0..500_000).filter(|number| {
        let tag = format!("callee{number}");
        tokens.far_end(&read, tag.as_bytes()) != read.caller
    });
    assert_eq!(mixed_up.count(), 0);
}
