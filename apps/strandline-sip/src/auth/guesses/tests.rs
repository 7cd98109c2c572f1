use super::*;

/// A phone at this address with a port of its own.
fn address(text: &str) -> Guesser {
    at_port(text, 5060)
}

fn at_port(text: &str, port: u16) -> Guesser {
    Guesser { address: SocketAddr::new(text.parse().unwrap(), port), is_own_port: true, edge: None, call: 0 }
}

/// Returns true if credentials of an unregistered user are rejected.
fn is_refused(guesses: &mut Guesses, secs: u64, guesser: &Guesser, user: &[u8]) -> bool {
    guesses.are_too_many(at(secs), guesser, user, Standing::Unknown)
}

fn at(secs: u64) -> Time {
    Time::from_millis(secs * 1000)
}

#[test]
fn guesses_are_ignored_after_too_many() {
    let mut guesses = Guesses::new([7; 16], 3);
    let mallory = address("192.0.2.66");
    for _ in 0..3 {
        assert!(!is_refused(&mut guesses, 0, &mallory, b"bob"));
        guesses.wrong(at(0), &mallory, b"bob");
    }
    assert!(is_refused(&mut guesses, 29, &mallory, b"bob"));
    // Another user at the address, and the same user elsewhere.
    assert!(!is_refused(&mut guesses, 0, &mallory, b"alice"));
    assert!(!is_refused(&mut guesses, 0, &address("192.0.2.67"), b"bob"));
    // One more attempt every half minute.
    assert!(!is_refused(&mut guesses, 30, &mallory, b"bob"));
    guesses.wrong(at(30), &mallory, b"bob");
    assert!(is_refused(&mut guesses, 59, &mallory, b"bob"));
    assert_eq!(guesses.counters, GuessCounters { wrong: 4, refused: 0 });
}

#[test]
fn who_is_right_has_not_guessed() {
    let mut guesses = Guesses::new([7; 16], 3);
    let phone = address("192.0.2.1");
    for round in 0..10 {
        guesses.wrong(at(round), &phone, b"bob");
        guesses.wrong(at(round), &phone, b"bob");
        guesses.right(at(round), &phone, b"bob");
        assert!(!is_refused(&mut guesses, round, &phone, b"bob"));
    }
}

#[test]
fn one_address_may_not_try_all_users() {
    let mut guesses = Guesses::new([7; 16], 3);
    let mallory = address("2001:db8::1");
    for user in 0..60_u32 {
        assert!(!is_refused(&mut guesses, 0, &mallory, &user.to_be_bytes()));
        guesses.wrong(at(0), &mallory, &user.to_be_bytes());
    }
    // Another address of the network counts as the same origin.
    assert!(is_refused(&mut guesses, 0, &address("2001:db8::2"), b"bob"));
    assert!(!is_refused(&mut guesses, 0, &address("2001:db8:0:1::1"), b"bob"));
}

#[test]
fn a_million_origins_take_no_more_memory() {
    let mut guesses = Guesses::new([7; 16], 3);
    for number in 0..200_000_u32 {
        let address = SocketAddr::new(IpAddr::from(number.to_be_bytes()), 5060);
        guesses.wrong(at(0), &Guesser { address, is_own_port: true, edge: None, call: 0 }, b"bob");
    }
    assert_eq!(guesses.places.len() * WAYS, 65_536);
    // The origin with the most wrong passwords keeps its slot.
    for _ in 0..3 {
        guesses.wrong(at(0), &address("198.51.100.1"), b"eve");
    }
    assert!(is_refused(&mut guesses, 0, &address("198.51.100.1"), b"eve"));
}

#[test]
fn without_a_limit_all_are_looked_at() {
    let mut guesses = Guesses::new([7; 16], 0);
    (0..100).for_each(|_| guesses.wrong(at(0), &address("192.0.2.66"), b"bob"));
    assert!(!is_refused(&mut guesses, 0, &address("192.0.2.66"), b"bob"));
}

/// Exceeds the limit for `bob` and, with many other users, for the address.
fn guess_all(guesses: &mut Guesses, guesser: &Guesser) {
    for user in 0..100_u32 {
        guesses.wrong(at(100), guesser, &user.to_be_bytes());
        guesses.wrong(at(100), guesser, b"bob");
    }
}

#[test]
fn phone_with_right_password_is_not_locked_out() {
    let mut guesses = Guesses::new([7; 16], 3);
    let (phone, guesser) = (at_port("192.0.2.1", 1000), at_port("192.0.2.1", 2000));
    guesses.right(at(0), &phone, b"alice");
    guesses.right(at(0), &phone, b"bob");
    guess_all(&mut guesses, &guesser);
    // Alice may use any port. Bob, whose password is being guessed, may use only his own.
    assert!(!is_refused(&mut guesses, 100, &at_port("192.0.2.1", 3000), b"alice"));
    assert!(!is_refused(&mut guesses, 100, &phone, b"bob"));
    assert!(is_refused(&mut guesses, 100, &guesser, b"bob"));
    assert!(is_refused(&mut guesses, 100, &guesser, b"carol"));
    assert!(is_refused(&mut guesses, 100, &phone, b"carol"));
    // A right password doesn't allow the attacker more guesses.
    guesses.right(at(100), &phone, b"bob");
    assert!(is_refused(&mut guesses, 100, &guesser, b"bob"));
    // Nor may an authenticated phone guess.
    (0..3).for_each(|_| guesses.wrong(at(100), &phone, b"bob"));
    assert!(is_refused(&mut guesses, 100, &phone, b"bob"));
}

#[test]
fn who_is_registered_is_not_kept_out() {
    let mut guesses = Guesses::new([7; 16], 3);
    let phone = at_port("192.0.2.1", 1000);
    guess_all(&mut guesses, &at_port("192.0.2.1", 2000));
    assert!(!guesses.are_too_many(at(100), &phone, b"alice", Standing::Address));
    assert!(guesses.are_too_many(at(100), &phone, b"bob", Standing::Address));
    assert!(!guesses.are_too_many(at(100), &phone, b"bob", Standing::Port));
    // A port that a proxy shares among phones belongs to nobody.
    let shared = Guesser { is_own_port: false, ..phone };
    assert!(guesses.are_too_many(at(100), &shared, b"bob", Standing::Port));
}

#[test]
fn address_named_by_an_edge_is_limited() {
    let mut guesses = Guesses::new([7; 16], 3);
    let edge = Some(IpAddr::from([198, 51, 100, 9]));
    for number in 0..60_u16 {
        let made_up = Guesser { edge, ..at_port("192.0.2.1", 1000 + number) };
        let [high, low] = number.to_be_bytes();
        let address = SocketAddr::new(IpAddr::from([10, 0, high, low]), 5060);
        assert!(!is_refused(&mut guesses, 0, &Guesser { address, ..made_up }, b"bob"));
        guesses.wrong(at(0), &Guesser { address, ..made_up }, b"bob");
    }
    let another = Guesser { edge, ..at_port("10.1.1.1", 5060) };
    assert!(is_refused(&mut guesses, 0, &another, b"bob"));
    assert!(!is_refused(&mut guesses, 0, &another, b"alice"));
}

#[test]
fn known_good_sources_are_bounded() {
    let mut guesses = Guesses::new([7; 16], 3);
    for number in 0..3 * GOOD_MAX as u32 / 2 {
        guesses.right(at(0), &address("192.0.2.1"), &number.to_be_bytes());
    }
    assert!(guesses.good.current.len() + guesses.good.last.len() <= 2 * GOOD_MAX);
}

#[test]
fn reconnecting_phone_has_tries_of_its_own() {
    let mut guesses = Guesses::new([7; 16], 3);
    let call = |port: u16, text: &[u8]| Guesser {
        call: Guesses::new([7; 16], 3).call(text),
        ..at_port("192.0.2.1", port)
    };
    guesses.right(at(0), &call(1000, b"phone's"), b"bob");
    guess_all(&mut guesses, &call(2000, b"guesser's"));
    for port in [3000, 4000] {
        assert!(!is_refused(&mut guesses, 100, &call(port, b"phone's"), b"bob"));
        guesses.right(at(100), &call(port, b"phone's"), b"bob");
    }
    // It is another's for other users, from elsewhere, and with another Call-ID.
    assert!(is_refused(&mut guesses, 100, &call(5000, b"phone's"), b"carol"));
    assert!(is_refused(&mut guesses, 100, &call(5000, b"another"), b"bob"));
    assert!(is_refused(&mut guesses, 100, &at_port("192.0.2.1", 5000), b"bob"));
    // Whoever knows the Call-ID has as many guesses as any other source.
    for port in 6000..6003 {
        assert!(!is_refused(&mut guesses, 100, &call(port, b"phone's"), b"bob"));
        guesses.wrong(at(100), &call(port, b"phone's"), b"bob");
    }
    assert!(is_refused(&mut guesses, 100, &call(7000, b"phone's"), b"bob"));
    // One more attempt every half minute.
    assert!(!is_refused(&mut guesses, 130, &call(7000, b"phone's"), b"bob"));
}

#[test]
fn who_is_registered_may_reconnect() {
    let mut guesses = Guesses::new([7; 16], 3);
    guess_all(&mut guesses, &at_port("192.0.2.1", 2000));
    let phone = Guesser { call: 5, ..at_port("192.0.2.1", 1000) };
    assert!(!guesses.are_too_many(at(100), &phone, b"bob", Standing::Call));
    for _ in 0..3 {
        assert!(!guesses.are_too_many(at(100), &phone, b"bob", Standing::Call));
        guesses.wrong(at(100), &Guesser { address: at_port("192.0.2.1", 7).address, ..phone }, b"bob");
    }
    assert!(guesses.are_too_many(at(100), &phone, b"bob", Standing::Call));
}
