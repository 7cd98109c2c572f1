use super::*;

#[test]
fn a_silent_connection_makes_way_for_a_newcomer() {
    let mut places = Places::default();
    let silent: Vec<Place> =
        (0..PLACES_OF_SOURCE).map(|_| places.take(Network::V4(1), Instant::now()).unwrap()).collect();
    places.on_request(&silent[0]);
    assert!(places.take(Network::V4(1), Instant::now()).is_some());
    assert!(places.taken.contains_key(&silent[0].number), "a request is under way");
    assert!(!places.taken.contains_key(&silent[1].number), "the oldest silent one");
    assert_eq!(places.taken.len(), PLACES_OF_SOURCE);
}

#[test]
fn one_source_takes_no_place_of_another() {
    let mut places = Places::default();
    let busy: Vec<Place> =
        (0..PLACES_OF_SOURCE).map(|_| places.take(Network::V4(1), Instant::now()).unwrap()).collect();
    busy.iter().for_each(|place| places.on_request(place));
    assert!(places.take(Network::V4(1), Instant::now()).is_none());
    assert!(places.take(Network::V4(2), Instant::now()).is_some());
    places.leave(&busy[3]);
    assert!(places.take(Network::V4(1), Instant::now()).is_some());
}

#[test]
fn places_are_limited_in_all() {
    let mut places = Places::default();
    let all: Vec<Place> =
        (0..PLACES as u32).map(|source| places.take(Network::V4(source), Instant::now()).unwrap()).collect();
    assert!(places.take(Network::V4(1000), Instant::now()).is_some());
    assert_eq!(places.taken.len(), PLACES);
    assert!(!places.taken.contains_key(&all[0].number));
}

/// A connection that has just been accepted with the last descriptor is not closed for one that may not even be there.
#[test]
fn without_descriptors_old_silent_connections_go_first() {
    let (mut places, now) = (Places::default(), Instant::now());
    let place = places.take(Network::V4(1), now).unwrap();
    places.evict_oldest(now);
    assert!(places.taken.contains_key(&place.number), "its request may be on its way");
    places.on_request(&place);
    let silent = places.take(Network::V4(2), now).unwrap();
    places.evict_oldest(now + AGE_MIN);
    assert!(places.taken.contains_key(&place.number) && !places.taken.contains_key(&silent.number));
}
