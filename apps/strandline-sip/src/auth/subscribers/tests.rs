#![allow(clippy::unwrap_used)]
use super::*;

fn who(user: &str) -> Subscriber {
    Subscriber { user: user.as_bytes().into(), domain: b"example.com".as_slice().into() }
}

fn cache(max: usize) -> Subscribers {
    let (lifetime, unknown) = (Duration::from_secs(300), Duration::from_secs(10));
    Subscribers::new(CacheSettings { max, lifetime, unknown })
}

fn secret() -> Option<Secret> {
    Secret::of(Some(b"wonderland".to_vec()), Vec::new())
}

#[test]
fn subscribers_are_cached_longer_than_strangers() {
    let mut cache = cache(10);
    let at = Time::from_millis;
    assert_eq!(cache.known(at(0), &who("alice")), None);
    cache.found(at(0), who("alice"), secret());
    cache.found(at(0), who("eve"), None);
    assert!(cache.known(at(9_999), &who("alice")).unwrap().is_some());
    assert_eq!(cache.known(at(9_999), &who("eve")), Some(None));
    assert_eq!(cache.known(at(10_000), &who("eve")), None);
    assert!(cache.known(at(299_999), &who("alice")).is_some());
    assert_eq!(cache.known(at(300_000), &who("alice")), None);
}

#[test]
fn cached_entries_last_while_lookups_fail() {
    let mut cache = cache(10);
    let at = Time::from_millis;
    cache.found(at(0), who("alice"), secret());
    assert_eq!(cache.known(at(300_000), &who("alice")), None);
    assert!(cache.not_found(at(300_000), &who("alice")));
    assert!(cache.known(at(309_999), &who("alice")).unwrap().is_some());
    assert!(!cache.not_found(at(0), &who("bob")));
}

#[test]
fn cache_is_bounded_and_keeps_used_entries() {
    let mut cache = cache(100);
    let now = Time::ZERO;
    cache.found(now, who("alice"), secret());
    for number in 0..10_000 {
        cache.found(now, who(&number.to_string()), None);
        assert!(cache.known(now, &who("alice")).is_some(), "after {number}");
        assert!(cache.len() <= 101, "{}", cache.len());
    }
    assert_eq!(cache.known(now, &who("17")), None);
}
