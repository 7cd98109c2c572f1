use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn at(secs: u64) -> Time {
    Time::from_millis(secs * 1000)
}

#[test]
fn too_many_wrong_ones_are_not_looked_at_until_time_has_passed() {
    let mut guesses = Guesses::new([7; 16], 3);
    let mallory = address("192.0.2.66");
    for _ in 0..3 {
        assert!(!guesses.are_too_many(at(0), mallory, b"bob"));
        guesses.wrong(at(0), mallory, b"bob");
    }
    assert!(guesses.are_too_many(at(29), mallory, b"bob"));
    // Another user of the same address, and the same user elsewhere.
    assert!(!guesses.are_too_many(at(0), mallory, b"alice"));
    assert!(!guesses.are_too_many(at(0), address("192.0.2.67"), b"bob"));
    // One more every half minute.
    assert!(!guesses.are_too_many(at(30), mallory, b"bob"));
    guesses.wrong(at(30), mallory, b"bob");
    assert!(guesses.are_too_many(at(59), mallory, b"bob"));
    assert_eq!(guesses.counters, GuessCounters { wrong: 4, refused: 2 });
}

#[test]
fn who_is_right_has_not_guessed() {
    let mut guesses = Guesses::new([7; 16], 3);
    let phone = address("192.0.2.1");
    for round in 0..10 {
        guesses.wrong(at(round), phone, b"bob");
        guesses.wrong(at(round), phone, b"bob");
        guesses.right(phone, b"bob");
        assert!(!guesses.are_too_many(at(round), phone, b"bob"));
    }
}

#[test]
fn one_address_may_not_try_all_users() {
    let mut guesses = Guesses::new([7; 16], 3);
    let mallory = address("2001:db8::1");
    for user in 0..60_u32 {
        assert!(!guesses.are_too_many(at(0), mallory, &user.to_be_bytes()));
        guesses.wrong(at(0), mallory, &user.to_be_bytes());
    }
    // Another address of its network is no other origin.
    assert!(guesses.are_too_many(at(0), address("2001:db8::2"), b"bob"));
    assert!(!guesses.are_too_many(at(0), address("2001:db8:0:1::1"), b"bob"));
}

#[test]
fn a_million_origins_take_no_more_memory() {
    let mut guesses = Guesses::new([7; 16], 3);
    for number in 0..200_000_u32 {
        guesses.wrong(at(0), IpAddr::from(number.to_be_bytes()), b"bob");
    }
    assert_eq!(guesses.places.len() * WAYS, 65_536);
    // Who was wrong most keeps its place.
    for _ in 0..3 {
        guesses.wrong(at(0), address("198.51.100.1"), b"eve");
    }
    assert!(guesses.are_too_many(at(0), address("198.51.100.1"), b"eve"));
}

#[test]
fn without_a_limit_all_are_looked_at() {
    let mut guesses = Guesses::new([7; 16], 0);
    (0..100).for_each(|_| guesses.wrong(at(0), address("192.0.2.66"), b"bob"));
    assert!(!guesses.are_too_many(at(0), address("192.0.2.66"), b"bob"));
}
