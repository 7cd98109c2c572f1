use super::*;

fn message(number: u32) -> Vec<u8> {
    format!("INVITE sip:a@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{number}\r\n\r\n")
        .into_bytes()
}

#[test]
fn only_rejected_requests_are_recognised_again() {
    let mut repeats = Repeats::new([1; 16]);
    assert!(!repeats.contains(&message(0)));
    (0..10_000).for_each(|number| repeats.insert(Time::from_millis(5), &message(number)));
    assert!((0..10_000).all(|number| repeats.contains(&message(number))));
    let wrong = (10_000..20_000).filter(|number| repeats.contains(&message(*number))).count();
    assert!(wrong < 20, "{wrong} of 10,000 others");
}

#[test]
fn forgotten_rejects_expire() {
    let mut repeats = Repeats::new([1; 16]);
    repeats.insert(Time::from_millis(0), &message(1));
    repeats.insert(Time::from_millis(TURN_MS + 1), &message(2));
    assert!(repeats.contains(&message(1)) && repeats.contains(&message(2)));
    repeats.insert(Time::from_millis(2 * TURN_MS + 2), &message(3));
    assert!(!repeats.contains(&message(1)) && repeats.contains(&message(2)));
}

#[test]
fn many_rejects_do_not_hide_others() {
    let mut repeats = Repeats::new([1; 16]);
    let many = MESSAGES_MAX as u32 * 2 - 1;
    (0..many).for_each(|number| repeats.insert(Time::from_millis(5), &message(number)));
    // Both filters are as full as allowed.
    assert!((many - 10_000..many).all(|number| repeats.contains(&message(number))));
    let wrong = (many..many + 100_000).filter(|number| repeats.contains(&message(*number))).count();
    assert!(wrong < 2000, "{wrong} of 100,000 others");
}
