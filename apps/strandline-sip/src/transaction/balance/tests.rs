use super::*;

fn balance() -> Balance {
    Balance::new([5; 16])
}

fn address(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

/// The number of response bytes that are allowed at `now` for `count` requests.
fn answered(balance: &mut Balance, now: Time, count: usize, came: usize, answer: usize) -> usize {
    let mut one = || {
        balance.came(now, address(1), came);
        balance.allows(now, address(1), answer, false)
    };
    (0..count).filter(|_| one()).count() * answer
}

#[test]
fn answers_that_are_no_larger_always_go() {
    let mut balance = balance();
    assert_eq!(answered(&mut balance, Time::ZERO, 100_000, 300, 300), 100_000 * 300);
}

#[test]
fn beyond_what_came_only_so_much_goes() {
    let mut balance = balance();
    let came = 10_000 * 300;
    let sent = answered(&mut balance, Time::ZERO, 10_000, 300, 600);
    assert!(sent <= came + BEYOND_MAX as usize, "{sent} for {came}");
    assert!(sent > came - 600, "what was asked for more often is answered: {sent} for {came}");
    // Other addresses are unaffected.
    assert!(balance.allows(Time::ZERO, address(2), 600, false));
    // The debt decays at the stated rate (the remainder was less than one response).
    let more = answered(&mut balance, Time::from_millis(1000), 10_000, 0, 100);
    assert!((1..FORGOTTEN_PER_SEC as usize + 600).contains(&more), "{more}");
}

#[test]
fn small_time_steps_decay_as_large_ones() {
    let mut balance = balance();
    let mut sent = 0;
    for millis in 0..10_000u64 {
        let now = Time::from_millis(millis);
        sent += usize::from(balance.allows(now, address(1), 100, false)) * 100;
    }
    let most = (BEYOND_MAX + 10 * FORGOTTEN_PER_SEC as i64) as usize;
    assert!(sent <= most && sent > most * 8 / 10, "{sent} of {most}");
}

#[test]
fn received_bytes_count_for_later_responses() {
    let mut balance = balance();
    balance.came(Time::ZERO, address(1), 100_000);
    let now = Time::from_millis(10_000);
    let forgotten = 10 * FORGOTTEN_PER_SEC as usize;
    let sent = answered(&mut balance, now, 10_000, 0, 100);
    assert!((100_000 - forgotten..=100_000 - forgotten + BEYOND_MAX as usize).contains(&sent), "{sent}");
    // The credit is bounded however much was received.
    balance.came(now, address(2), usize::MAX);
    let mut sent = 0;
    while balance.allows(now, address(2), 1000, false) {
        sent += 1000;
    }
    assert!(sent <= AHEAD_MAX + BEYOND_MAX, "{sent}");
}

#[test]
fn provisional_responses_leave_room_for_final_ones() {
    let mut balance = balance();
    while balance.allows(Time::ZERO, address(1), 500, true) {}
    let finals = (0..100).filter(|_| balance.allows(Time::ZERO, address(1), 500, false)).count();
    assert_eq!(finals, 16);
}

#[test]
fn proved_source_is_unlimited_for_ten_minutes() {
    let (mut balance, now) = (balance(), Time::ZERO);
    balance.prove(now, address(1));
    assert!(balance.is_proven(now, address(1)));
    assert!(!balance.is_proven(now, address(2)));
    // The address in the form of a dual-stack socket.
    assert!(balance.is_proven(now, "::ffff:192.0.2.1".parse().unwrap()));
    assert!(balance.is_proven(Time::from_millis(599_999), address(1)));
    assert!(!balance.is_proven(Time::from_millis(600_000), address(1)));
    // Another address of the /64 has proved nothing, although both share an account.
    let [one, other] = ["2001:db8::1", "2001:db8::2"].map(|text| text.parse::<IpAddr>().unwrap());
    balance.prove(now, one);
    assert!(balance.is_proven(now, one) && !balance.is_proven(now, other));
}

#[test]
fn the_latest_are_remembered_however_many_there_are() {
    let mut balance = balance();
    let all = |number: u32| IpAddr::from(number.to_be_bytes());
    for number in 0..1_000_000u32 {
        balance.prove(Time::from_millis(u64::from(number) / 10_000), all(number));
    }
    let now = Time::from_millis(100);
    let of_late = (999_000..1_000_000).filter(|number| balance.is_proven(now, all(*number))).count();
    assert!(of_late > 900, "{of_late}");
}
