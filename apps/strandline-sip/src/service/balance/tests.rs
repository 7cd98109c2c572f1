use super::*;

fn balance() -> Balance {
    Balance::new([5; 16])
}

fn address(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

/// How many bytes of answers go out for so many requests.
fn answered(balance: &mut Balance, count: usize, came: usize, answer: usize) -> usize {
    (0..count).filter(|_| balance.allows(address(1), came, answer)).count() * answer
}

#[test]
fn answers_that_are_no_larger_always_go() {
    let mut balance = balance();
    assert_eq!(answered(&mut balance, 100_000, 300, 300), 100_000 * 300);
}

#[test]
fn beyond_what_came_only_so_much_goes() {
    let mut balance = balance();
    let came = 10_000 * 300;
    let sent = answered(&mut balance, 10_000, 300, 600);
    assert!(sent <= came + BEYOND_MAX as usize, "{sent} for {came}");
    assert!(sent > came - 600, "what was asked for more often is answered: {sent} for {came}");
    // Others are in nobody's way.
    assert!(balance.allows(address(2), 300, 600));
    // It is forgotten in time, and no faster (less than a whole answer was left).
    balance.set_now(Time::from_millis(1000));
    let more = answered(&mut balance, 10_000, 0, 100);
    assert!((1..BEYOND_PER_SEC as usize + 600).contains(&more), "{more}");
}

#[test]
fn what_comes_in_many_small_steps_of_time_is_forgotten_as_well() {
    let mut balance = balance();
    let mut sent = 0;
    for millis in 0..10_000u64 {
        balance.set_now(Time::from_millis(millis));
        sent += usize::from(balance.allows(address(1), 0, 100)) * 100;
    }
    let most = BEYOND_MAX as usize + 10 * BEYOND_PER_SEC as usize;
    assert!(sent <= most && sent > most * 8 / 10, "{sent} of {most}");
}
