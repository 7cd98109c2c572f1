use super::*;
use crate::transaction::Protocol;

fn flow() -> Flow {
    Flow::to(Protocol::Udp, ([127, 0, 0, 1], 5060).into())
}

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn push(inbox: &mut Inbox, now: Time, lines: &[&str]) {
    for line in lines {
        inbox.push(now, flow(), Bytes::from(format!("{line} sip:a SIP/2.0\r\n\r\n")));
    }
}

/// Takes all: `-` before what is refused.
fn take(inbox: &mut Inbox, now: Time) -> Vec<String> {
    let name = |waiting: &Waiting| {
        let text = String::from_utf8(waiting.bytes.to_vec()).unwrap();
        text.split(' ').next().unwrap().to_owned()
    };
    std::iter::from_fn(|| inbox.next(now))
        .map(|next| match next {
            Next::Handle(waiting) => name(&waiting),
            Next::Refuse(waiting) => format!("-{}", name(&waiting)),
        })
        .collect()
}

#[test]
fn what_has_begun_goes_first_and_the_others_by_turns() {
    let mut inbox = Inbox::default();
    push(&mut inbox, at(0), &["INVITE", "INVITE", "REGISTER", "REGISTER", "REGISTER", "BYE", "ACK"]);
    let order = ["BYE", "ACK", "REGISTER", "INVITE", "REGISTER", "INVITE", "REGISTER"];
    assert_eq!(take(&mut inbox, at(0)), order);
    assert!(inbox.is_empty());
}

#[test]
fn who_has_waited_too_long_is_refused_unless_it_has_begun() {
    let mut inbox = Inbox::default();
    push(&mut inbox, at(0), &["INVITE", "REGISTER", "CANCEL"]);
    push(&mut inbox, at(90), &["INVITE"]);
    assert_eq!(take(&mut inbox, at(101)), ["CANCEL", "-REGISTER", "-INVITE", "INVITE"]);
}

#[test]
fn all_that_came_before_a_message_is_known_to_be_done() {
    let mut inbox = Inbox::default();
    push(&mut inbox, at(0), &["INVITE"]);
    let number = inbox.last();
    push(&mut inbox, at(0), &["BYE"]);
    assert!(!inbox.is_done(number));
    let _ = inbox.next(at(0));
    assert!(!inbox.is_done(number));
    let _ = inbox.next(at(0));
    assert!(inbox.is_done(number) && inbox.is_done(inbox.last()));
}

#[test]
fn no_more_waits_than_there_is_room_for() {
    let mut inbox = Inbox::default();
    let large = Bytes::from(vec![b'a'; 1 << 20]);
    for _ in 0..100 {
        inbox.push(at(0), flow(), large.clone());
    }
    assert_eq!(inbox.dropped, 36);
    while inbox.next(at(0)).is_some() {}
    inbox.push(at(0), flow(), large);
    assert_eq!(inbox.dropped, 36);
}
