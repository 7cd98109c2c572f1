use super::*;

const SHORT: Option<Duration> = Some(Duration::from_micros(300));

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(1_000 + ms)
}

fn shares(count: usize) -> Vec<Share> {
    vec![Share::default(); count]
}

/// Updates all shares and returns the last one in bytes.
fn update(queue: &mut ReceiveQueue, now: Time, shares: &mut [Share]) -> u32 {
    for share in &mut *shares {
        share.update(now, queue, SHORT, FLOW_MIN, 0);
    }
    shares.last().unwrap().bytes()
}

#[test]
fn one_flow_has_the_whole_queue() {
    let mut queue = ReceiveQueue::new(512_000);
    let mut one = shares(1);
    for ms in 0..100 {
        assert_eq!(update(&mut queue, at(ms), &mut one), 512_000);
    }
}

#[test]
fn flows_divide_the_queue() {
    let mut queue = ReceiveQueue::new(512_000);
    let mut ten = shares(10);
    assert_eq!(update(&mut queue, at(0), &mut ten), 51_200);
    assert_eq!(update(&mut queue, at(1), &mut ten), 51_200);
    // The next interval begins with the number of the one before.
    assert_eq!(update(&mut queue, at(0) + INTERVAL, &mut ten[..1]), 51_200);
    // Flows that ended leave their shares to the others one interval later.
    assert_eq!(update(&mut queue, at(0) + 2 * INTERVAL, &mut ten[..1]), 512_000);
}

#[test]
fn share_allows_a_few_packets() {
    let mut queue = ReceiveQueue::new(512_000);
    let mut many = shares(10_000);
    let least = update(&mut queue, at(0), &mut many);
    assert!((SHARE_MIN..SHARE_MIN + UNIT).contains(&least), "{least}");
    many[0].update(at(0), &mut queue, SHORT, 1, 65_000);
    assert!((65_000..65_000 + UNIT).contains(&many[0].bytes()));
}

#[test]
fn long_and_unknown_paths_have_no_share() {
    let mut queue = ReceiveQueue::new(512_000);
    for rtt in [None, Some(SHORT_RTT), Some(Duration::from_secs(1))] {
        let mut share = Share::default();
        share.update(at(0), &mut queue, rtt, FLOW_MIN, 0);
        assert_eq!(share.bytes(), u32::MAX);
    }
    // They were not counted.
    assert_eq!(update(&mut queue, at(0), &mut shares(1)), 512_000);
}

#[test]
fn one_flow_leaves_most_of_a_large_queue() {
    let mut queue = ReceiveQueue::new(1 << 30);
    assert!(queue.is_limited());
    let share = |queue: &mut ReceiveQueue, rtt_us| {
        let mut share = Share::default();
        share.update(at(0), queue, Some(Duration::from_micros(rtt_us)), FLOW_MIN, 0);
        share.bytes()
    };
    assert_eq!(share(&mut queue, 20), 384 << 10);
    assert_eq!(share(&mut queue, 200), 384 << 10);
    assert_eq!(share(&mut queue, 400), 768 << 10);
    let mut queue = ReceiveQueue::new(u32::MAX - 1);
    assert_eq!(share(&mut queue, 4_999), 38_393 * 256);
    assert!(!ReceiveQueue::new(u32::MAX).is_limited());
}

#[test]
fn few_packets_make_no_flow() {
    let mut queue = ReceiveQueue::new(512_000);
    let (mut bulk, mut chatty) = (shares(1), shares(100));
    for ms in 0..100 {
        assert_eq!(update(&mut queue, at(ms), &mut bulk), 512_000);
        if ms % 5 == 0 {
            for share in &mut chatty {
                share.update(at(ms), &mut queue, SHORT, 1, 0);
                assert_eq!(share.bytes(), u32::MAX);
            }
        }
    }
    // A flow keeps its share when an interval begins, and loses it after one with few packets.
    update(&mut queue, at(100), &mut chatty);
    let share = chatty[99].bytes();
    assert!(share < 20_000);
    chatty[99].update(at(100) + INTERVAL, &mut queue, SHORT, 1, 0);
    assert_eq!(chatty[99].bytes(), share);
    chatty[99].update(at(100) + 2 * INTERVAL, &mut queue, SHORT, 1, 0);
    assert_eq!(chatty[99].bytes(), u32::MAX);
}

/// The capacity is what the kernel promises; it may charge packets with more than their bytes.
#[test]
fn drops_lower_what_is_divided() {
    let mut queue = ReceiveQueue::new(512_000);
    let mut ten = shares(10);
    assert_eq!(update(&mut queue, at(0), &mut ten), 51_200);
    queue.on_drops(at(1));
    assert_eq!(update(&mut queue, at(1), &mut ten), 38_400);
    // Drops of one interval count once.
    queue.on_drops(at(2));
    assert_eq!(update(&mut queue, at(2), &mut ten), 38_400);
    queue.on_drops(at(11));
    assert_eq!(update(&mut queue, at(11), &mut ten), 28_928, "288,000 / 10, in units of {UNIT} bytes");
    // A little more each interval that passes without drops, up to all.
    let after = |queue: &mut ReceiveQueue, ten: &mut [Share], intervals: u64| {
        (2..=intervals).map(|each| update(queue, at(11 + 10 * each), ten)).last().unwrap()
    };
    assert!((29_000..31_000).contains(&after(&mut queue, &mut ten, 10)));
    assert_eq!(after(&mut queue, &mut ten, 300), 51_200);
}

#[test]
fn queue_without_limit_ignores_drops() {
    let mut queue = ReceiveQueue::new(u32::MAX);
    queue.on_drops(at(1));
    assert!(!queue.is_limited());
    assert_eq!(
        update(&mut queue, at(1), &mut shares(1)),
        update(&mut ReceiveQueue::new(u32::MAX), at(1), &mut shares(1))
    );
}
