use super::super::clock::Clock;
use super::super::intake::Intake;
use super::*;
use crate::service::End;
use crate::transaction::Protocol;

mod logged;
mod overload;

fn flow(port: u16) -> Flow {
    Flow::to(Protocol::Udp, ([127, 0, 0, 1], port).into())
}

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn inbox() -> Inbox {
    let mut inbox = Inbox::new(InboxSettings::default(), None, [3; 16]);
    inbox.set_tokens(tokens());
    inbox
}

fn tokens() -> Tokens {
    Tokens::new([4; 16])
}

/// A request within a dialog.
fn reinvite() -> String {
    let mut token = Vec::new();
    let end = |port| End { flow: flow(port), host: 0 };
    tokens().write(&end(5060), &end(5061), b"a", &mut token);
    let token = String::from_utf8(token).unwrap();
    format!("INVITE sip:a SIP/2.0\r\nRoute: <sip:{token}@here;lr>\r\nTo: <sip:a>;tag=1\r\n\r\n")
}

/// Adds messages; the phone that sends REGISTER2 is known.
fn push(inbox: &mut Inbox, now: Duration, names: &[&str]) {
    for name in names {
        let known = name.ends_with('2');
        let text = match *name {
            "REINVITE" => reinvite(),
            "SOS" => "INVITE urn:service:sos SIP/2.0\r\n\r\n".to_owned(),
            name => format!("{} sip:a SIP/2.0\r\nX: {name}\r\n\r\n", name.trim_end_matches('2')),
        };
        add(inbox, now, flow(5060), text.into(), known);
    }
}

fn add(inbox: &mut Inbox, now: Duration, flow: Flow, bytes: Bytes, known: bool) {
    let phone = if known { Phone::Known } else { Phone::Unknown };
    inbox.push(Arrived::at(now), flow, &bytes, || bytes.clone(), |_| phone);
}

fn name(waiting: &Waiting) -> String {
    let text = String::from_utf8(waiting.bytes.to_vec()).unwrap();
    match text.split_once("X: ") {
        Some((_, rest)) => rest.trim_end().to_owned(),
        None if text.contains("sos") => "SOS".to_owned(),
        None => "REINVITE".to_owned(),
    }
}

/// Takes all messages, with `-` before rejected ones.
fn take(inbox: &mut Inbox, now: Duration) -> Vec<String> {
    let mut taken: Vec<String> =
        std::iter::from_fn(|| inbox.next(now)).map(|waiting| name(&waiting)).collect();
    taken.extend(std::iter::from_fn(|| inbox.next_rejection()).map(|waiting| format!("-{}", name(&waiting))));
    taken
}

#[test]
fn in_dialog_goes_first_then_emergencies() {
    let mut inbox = inbox();
    push(&mut inbox, at(0), &["INVITE", "INVITE", "REGISTER", "REGISTER2", "REGISTER", "SOS", "BYE", "ACK"]);
    let order = ["BYE", "ACK", "SOS", "REGISTER2", "INVITE", "REGISTER", "INVITE", "REGISTER"];
    assert_eq!(take(&mut inbox, at(0)), order);
    assert!(inbox.is_empty());
}

#[test]
fn late_messages_are_rejected_unless_in_dialog() {
    let mut inbox = inbox();
    push(&mut inbox, at(0), &["INVITE", "REGISTER", "CANCEL"]);
    push(&mut inbox, at(90), &["INVITE", "REINVITE"]);
    assert_eq!(take(&mut inbox, at(101)), ["CANCEL", "REINVITE", "INVITE", "-REGISTER", "-INVITE"]);
    assert_eq!(inbox.counters.late, [0, 0, 0, 1, 0, 1]);
    assert_eq!(inbox.counters.handled, [2, 0, 0, 0, 0, 1]);
}

/// A burst has used up the rejections. The limit of that moment doesn't apply once the server has been idle.
#[test]
fn the_limit_of_rejections_is_refreshed_without_traffic() {
    let intake = Intake::new(inbox());
    // As many as wanted, however briefly after the start.
    intake.refusals_per_sec.set(u32::MAX);
    intake.inbox(|inbox| inbox.set_rejections_max(0));
    let late = |came| {
        intake.inbox(|inbox| {
            push(inbox, at(came), &["REGISTER"]);
            take(inbox, at(came + 101))
        })
    };
    assert!(late(0).is_empty(), "it is dropped silently");
    intake.steer(&Clock::start(), None);
    assert_eq!(late(200), ["-REGISTER"]);
}

#[test]
fn nobody_is_kept_out_by_what_looks_urgent() {
    let mut inbox = inbox();
    push(&mut inbox, at(0), &["BYE"; 100]);
    push(&mut inbox, at(0), &["INVITE", "REGISTER"]);
    let order = take(&mut inbox, at(0));
    let place = |wanted: &str| order.iter().position(|name| name == wanted).unwrap();
    assert!(place("INVITE") < 40 && place("REGISTER") < 40, "{order:?}");
}

#[test]
fn barrier_waits_for_all_earlier_messages() {
    let mut inbox = inbox();
    assert!(inbox.after_all().is_none());
    push(&mut inbox, at(0), &["INVITE"]);
    let mut first = inbox.after_all().unwrap();
    push(&mut inbox, at(0), &["BYE"]);
    let mut second = inbox.after_all().unwrap();
    let mut told = |inbox: &mut Inbox| {
        let taken = inbox.next(at(0)).is_some();
        inbox.notify_handled();
        assert!(taken);
        (first.try_recv().is_ok(), second.try_recv().is_ok())
    };
    // The BYE is handled first, and is not the one that was waited for.
    assert_eq!(told(&mut inbox), (false, false));
    assert_eq!(told(&mut inbox), (true, true));
}

#[test]
fn no_more_waits_than_there_is_room_for() {
    let mut inbox = inbox();
    let filled = |method: &str| Bytes::from(format!("{method} sip:a SIP/2.0\r\n\r\n{}", "x".repeat(1 << 20)));
    for _ in 0..100 {
        add(&mut inbox, at(0), flow(5060), filled("INVITE"), false);
    }
    assert_eq!(inbox.counters.no_room, 100 - 47);
    // There is room left for urgent messages.
    add(&mut inbox, at(0), flow(5060), filled("BYE"), false);
    assert_eq!((inbox.counters.no_room, inbox.len()), (53, 48));
    while inbox.next(at(0)).is_some() {}
    add(&mut inbox, at(0), flow(5060), filled("INVITE"), false);
    assert_eq!((inbox.counters.no_room, inbox.len()), (53, 1));
}

#[test]
fn flooding_source_is_refused() {
    let mut inbox = Inbox::new(InboxSettings::default(), Some(Sources::new(10, [7; 16])), [3; 16]);
    push(&mut inbox, at(0), &["INVITE"; 100]);
    assert_eq!((inbox.len(), inbox.counters.too_many), (20, 80));
    let other = Flow::to(Protocol::Udp, ([127, 0, 0, 2], 5060).into());
    add(&mut inbox, at(0), other, Bytes::from_static(b"BYE sip:a SIP/2.0\r\n\r\n"), false);
    assert_eq!((inbox.len(), inbox.counters.too_many), (21, 80));
}

#[test]
fn a_look_tells_what_happened_since_the_last() {
    let mut inbox = inbox();
    let mut looks = Looks::default();
    push(&mut inbox, at(0), &["INVITE", "BYE"]);
    take(&mut inbox, at(0));
    let load = looks.look(Duration::from_secs(1), &inbox.counters);
    assert_eq!(load, Load { secs: 1.0, handled: 1, refused: 0 });
    push(&mut inbox, at(0), &["INVITE", "REGISTER2", "BYE"]);
    assert_eq!(inbox.longest_wait(at(200)), Duration::from_millis(200));
    take(&mut inbox, at(200));
    let load = looks.look(Duration::from_secs(3), &inbox.counters);
    assert_eq!(load, Load { secs: 2.0, handled: 0, refused: 2 });
}

/// An inbox in overload: a request was rejected and little handled since, so a few may wait.
fn overloaded() -> Inbox {
    let mut inbox = inbox();
    push(&mut inbox, at(0), &["INVITE"; 101]);
    (0..100).for_each(|_| assert!(inbox.next(at(0)).is_some()));
    assert!(inbox.next(at(101)).is_none() && inbox.next(at(102)).is_none());
    assert_eq!(take(&mut inbox, at(202)), ["-INVITE"]);
    assert!(inbox.admission.is_overloaded());
    inbox
}

#[test]
fn overload_rejects_on_arrival() {
    let mut inbox = overloaded();
    let room = inbox.admission.room(InboxSettings::default().wait_max);
    let many = vec!["INVITE"; room + 3];
    push(&mut inbox, at(210), &many);
    push(&mut inbox, at(210), &["BYE", "REINVITE", "SOS"]);
    let taken = take(&mut inbox, at(210));
    assert_eq!(taken.len(), room + 6);
    assert_eq!(taken[room + 3..], ["-INVITE", "-INVITE", "-INVITE"]);
    // Registrations have their own room.
    push(&mut inbox, at(211), &many);
    push(&mut inbox, at(211), &["REGISTER2", "REGISTER"]);
    assert_eq!(take(&mut inbox, at(211)).iter().filter(|name| name.starts_with("REGISTER")).count(), 2);
}

#[test]
fn long_waits_in_the_socket_are_rejected() {
    let waited = |inbox: &mut Inbox, now: u64, waited: u64, number: u32| {
        let text = Bytes::from(format!("INVITE sip:a SIP/2.0\r\nX: {number}\r\n\r\n"));
        let arrived = Arrived { now: at(now), waited: at(waited) };
        inbox.push(arrived, flow(5060), &text, || text.clone(), |_| Phone::Unknown);
    };
    let mut inbox = overloaded();
    // One is too old already, and one will be when it is its turn.
    (1..).zip([101, 60, 40]).for_each(|(number, old)| waited(&mut inbox, 210, old, number));
    assert_eq!(take(&mut inbox, at(255)), ["3", "-1", "-2"]);
}

#[test]
fn silent_rejects_are_repeated_and_answered_later() {
    let mut inbox = overloaded();
    let text = |number: u32| Bytes::from(format!("INVITE sip:a SIP/2.0\r\nX: {number}\r\n\r\n"));
    let room = inbox.admission.room(InboxSettings::default().wait_max) as u32;
    inbox.set_rejections_max(0);
    (0..=room).for_each(|number| add(&mut inbox, at(210), flow(5060), text(number), false));
    assert_eq!(inbox.counters.rejected_silently, 1);
    assert_eq!(take(&mut inbox, at(210)).len() as u32, room);
    inbox.set_rejections_max(10);
    // There is room, but not for the retransmission.
    add(&mut inbox, at(300), flow(5060), text(room), false);
    add(&mut inbox, at(300), flow(5060), text(room + 1), false);
    assert_eq!(take(&mut inbox, at(300)), [(room + 1).to_string(), format!("-{room}")]);
    // Over a connection, clients don't retransmit.
    let connection = Flow { protocol: Protocol::Tcp, ..flow(5060) };
    add(&mut inbox, at(300), connection, text(room), false);
    assert_eq!(take(&mut inbox, at(300)), [room.to_string()]);
}

#[test]
fn returning_phones_wait_their_turn() {
    let mut inbox = overloaded();
    let connection = |port| Flow { protocol: Protocol::Tcp, ..flow(port) };
    let register = Bytes::from_static(b"REGISTER sip:a SIP/2.0\r\nX: arrival\r\n\r\n");
    for port in 1..=10_000 {
        inbox.push(
            Arrived::at(at(210)),
            connection(port),
            &register,
            || register.clone(),
            |_| Phone::Arriving,
        );
    }
    // Calls and known phones are handled first, in turns.
    push(&mut inbox, at(210), &["INVITE", "REGISTER2"]);
    let first: Vec<String> =
        std::iter::from_fn(|| inbox.next(at(211))).take(3).map(|waiting| name(&waiting)).collect();
    assert!(first.iter().any(|name| name == "INVITE") && first.iter().any(|name| name == "REGISTER2"));
    // No other message is rejected, for a long time.
    let served = std::iter::from_fn(|| inbox.next(at(10_000))).take(9000).count();
    assert_eq!((served, inbox.counters.late[Urgency::Arrival as usize]), (9000, 0));
    assert!(inbox.next(at(30_000)).is_none());
    assert_eq!(inbox.counters.late[Urgency::Arrival as usize], 10_000 - 9001);
}

#[test]
fn overload_ends_when_arrivals_stop() {
    let mut inbox = inbox();
    push(&mut inbox, at(0), &["INVITE"]);
    assert_eq!(take(&mut inbox, at(150)), ["-INVITE"]);
    inbox.look(at(300));
    assert!(inbox.admission.is_overloaded());
    (4..15).for_each(|tenths| inbox.look(at(tenths * 100)));
    assert!(!inbox.admission.is_overloaded());
}

#[test]
fn sequence_is_done_when_its_messages_are() {
    let mut inbox = inbox();
    push(&mut inbox, at(0), &["INVITE", "BYE"]);
    let last = inbox.last();
    push(&mut inbox, at(0), &["REGISTER"]);
    for name_of_next in ["BYE", "REGISTER", "INVITE"] {
        assert!(!inbox.is_done_with(last));
        assert_eq!(inbox.next(at(0)).map(|waiting| name(&waiting)).as_deref(), Some(name_of_next));
    }
    assert!(inbox.is_done_with(last) && inbox.is_done_with(inbox.last()));
}

#[test]
fn what_each_message_takes_besides_its_bytes_counts() {
    let each = size_of::<Waiting>();
    let settings = InboxSettings { bytes_max: 100 * (each + 20) / 3 * 4, ..InboxSettings::default() };
    let mut inbox = Inbox::new(settings, None, [3; 16]);
    let short = Bytes::from_static(b"INVITE s SIP/2.0\r\n\r\n");
    assert_eq!(short.len(), 20);
    for _ in 0..1000 {
        add(&mut inbox, at(0), flow(5060), short.clone(), false);
    }
    assert!((95..=100).contains(&inbox.len()), "{}", inbox.len());
    // All memory is released, also that of messages that waited too long.
    while inbox.next(at(50)).is_some() {}
    for _ in 0..90 {
        add(&mut inbox, at(60), flow(5060), short.clone(), false);
    }
    assert!(inbox.next(at(200)).is_none());
    assert_eq!((inbox.len(), inbox.bytes), (0, 0));
}

#[test]
fn rejected_registers_are_served_when_sent_again() {
    let text = |method: &str| Bytes::from(format!("{method} sip:a SIP/2.0\r\nX: {method}\r\n\r\n"));
    for (method, again) in [("REGISTER", "REGISTER"), ("INVITE", "-INVITE")] {
        let mut inbox = overloaded();
        inbox.set_rejections_max(0);
        let arrived = Arrived { now: at(210), waited: at(101) };
        inbox.push(arrived, flow(5060), &text(method), || text(method), |_| Phone::Unknown);
        assert_eq!(inbox.counters.rejected_silently, 1);
        inbox.set_rejections_max(10);
        add(&mut inbox, at(300), flow(5060), text(method), false);
        assert_eq!(take(&mut inbox, at(300)), [again]);
        // The gate's trial holds it up no more.
        inbox.admit(0.0);
        add(&mut inbox, at(301), flow(5060), text(method), false);
        assert_eq!(take(&mut inbox, at(301)), [again]);
    }
}
