use super::*;

const SIZE: u32 = 100_000;

/// Returns a window after `len` bytes arrived in chunks of up to 1,000 bytes and wait to be read.
fn filled(len: usize) -> Window {
    let mut window = Window::new(SIZE);
    for at in (0..len).step_by(1000) {
        take(&mut window, (len - at).min(1000));
    }
    window
}

/// Takes a chunk that waits to be read.
fn take(window: &mut Window, len: usize) {
    window.on_taken(len);
    window.charge(len);
}

/// Advertises the window to the peer.
fn advertise(window: &mut Window) -> u32 {
    let a_rwnd = window.advertised(u32::MAX);
    window.on_advertised(a_rwnd);
    a_rwnd
}

/// Section 6.2.1, B and C.
#[test]
fn window_shrinks_by_arrivals_and_grows_by_reads() {
    let mut window = filled(30_000);
    assert_eq!(advertise(&mut window), 70_000);
    window.release(30_000);
    assert_eq!(advertise(&mut window), SIZE);
}

#[test]
fn grows_only_in_steps_worth_telling() {
    let mut window = filled(30_000);
    advertise(&mut window);
    window.release(1000);
    assert_eq!(advertise(&mut window), 70_000);
    window.release(452);
    assert_eq!(advertise(&mut window), 71_452);
}

#[test]
fn an_empty_buffer_is_told_of_whole() {
    let mut window = filled(100);
    advertise(&mut window);
    window.release(100);
    assert_eq!(advertise(&mut window), SIZE);
}

/// Section 6.2: new data is dropped while the advertised window is 0.
#[test]
fn a_closed_window_takes_only_what_is_missing() {
    let mut window = filled(SIZE as usize);
    assert_eq!(advertise(&mut window), 0);
    assert!(!window.takes_new());
    assert!(window.takes_missing());
    window.release(1000);
    assert!(!window.takes_new(), "not worth telling yet");
    window.release(1000);
    assert!(window.takes_new());
}

/// Promised data is accepted although small chunks cost more than their bytes.
#[test]
fn a_promise_is_kept() {
    let mut window = Window::new(SIZE);
    for _ in 0..500 {
        window.on_taken(100);
        window.charge(100 + HELD_COST);
    }
    assert_eq!(window.advertised(u32::MAX), 0);
    assert!(window.takes_new(), "half of the window that was promised is still owed");
    window.on_advertised(0);
    assert!(window.takes_new(), "the other half may be under way");
    window.on_taken(SIZE as usize / 2);
    assert!(!window.takes_new(), "that was all");
}

#[test]
fn promises_end_at_twice_the_buffer() {
    let mut window = Window::new(SIZE);
    window.on_taken(1000);
    window.charge(2 * SIZE as usize);
    assert!(!window.takes_new());
    assert!(!window.takes_missing());
    assert!(!window.is_overrun());
    window.charge(2 * SIZE as usize + (1 << 18));
    assert!(window.is_overrun());
}

/// Section 6.2: no large number of window updates; one for a quarter of the buffer.
#[test]
fn updates_come_by_quarters_of_the_buffer() {
    let mut window = filled(SIZE as usize);
    advertise(&mut window);
    window.release(24_999);
    assert!(!window.update_due(false, Share::default()));
    window.release(1);
    assert!(window.update_due(false, Share::default()));
    advertise(&mut window);
    assert!(!window.update_due(false, Share::default()));
}

#[test]
fn closed_window_reports_when_all_is_read() {
    let mut window = filled(SIZE as usize);
    advertise(&mut window);
    window.release(2000);
    assert!(!window.update_due(false, Share::default()));
    assert!(window.update_due(true, Share::default()));
    let mut open = filled(50_000);
    advertise(&mut open);
    open.release(2000);
    assert!(!open.update_due(true, Share::default()), "this peer does not wait");
}

#[test]
fn a_smaller_buffer_takes_nothing_back() {
    let mut window = filled(10_000);
    window.resize(5_000);
    assert_eq!(window.advertised(u32::MAX), 0);
    assert!(window.used() == 10_000);
}

/// The window shrinks by what the peer uses up, whatever is read meanwhile, and never by more.
#[test]
fn squeezing_takes_nothing_back() {
    let mut window = Window::new(SIZE);
    window.grow(4 * SIZE, 3 * SIZE);
    assert_eq!(window.size(), 3 * SIZE);
    assert_eq!(advertise(&mut window), 3 * SIZE);
    let mut edge = 3 * SIZE;
    let mut arrived = 0;
    while window.size() > SIZE {
        window.on_taken(1000);
        window.charge(1000);
        window.release(1000);
        window.squeeze(SIZE);
        arrived += 1000;
        assert!(arrived + advertise(&mut window) >= edge);
        edge = arrived + window.promised();
        assert!(arrived <= 2 * SIZE, "it goes on for no longer than that");
    }
    assert_eq!(window.size(), SIZE);
}

/// With a share of the carrier's receive queue the window is as that of a smaller buffer.
#[test]
fn share_limits_the_window() {
    let share = 20_000;
    let mut window = Window::new(SIZE);
    assert!(SIZE > 2 * share);
    assert_eq!(window.advertised(share), share);
    window.on_advertised(share);
    assert!(!window.is_tight(share));
    window.on_taken(15_000);
    window.charge(15_000);
    assert!(window.is_tight(share));
    // Reading opens the window by a quarter of the share, not of the buffer.
    window.release(3_000);
    assert!(!window.update_due(false, Share::of(6_000)));
    assert!(window.update_due(false, Share::of(share)));
}

/// Data that was sent before the share became smaller is accepted.
#[test]
fn smaller_share_refuses_nothing_on_the_way() {
    let mut window = Window::new(SIZE);
    window.on_advertised(SIZE);
    window.on_taken(1_000);
    window.on_advertised(window.advertised(6_000));
    assert_eq!(window.promised(), 6_000);
    for _ in 1..SIZE / 1_000 {
        assert!(window.takes_new());
        window.on_taken(1_000);
    }
}

/// RFC 1122 section 4.2.3.3: a sender with chunks of 65,000 bytes waits before a window of 35,000 of 100,000 bytes.
#[test]
fn window_below_the_longest_chunk_is_low() {
    let mut window = Window::new(SIZE);
    take(&mut window, 65_000);
    assert_eq!(advertise(&mut window), 35_000);
    assert!(window.is_low(u32::MAX), "the peer may wait");
    window.release(14_000);
    assert_eq!(advertise(&mut window), 35_000, "still too little for half of the buffer");
    window.release(1000 + 35_000);
    assert_eq!(advertise(&mut window), 85_000);
    assert!(!window.is_low(u32::MAX));
    let share = 20_000;
    assert!(!window.is_low(share), "half of a small share is enough");
}

/// A reader that takes all it can leaves the peer no reason to wait.
#[test]
fn drained_reader_reports_room_for_the_longest_chunk() {
    let mut window = Window::new(4 * SIZE);
    for _ in 0..6 {
        take(&mut window, 65_000);
    }
    assert_eq!(advertise(&mut window), 10_000);
    window.release(64_000);
    assert!(!window.update_due(true, Share::default()));
    window.release(1000);
    assert!(window.update_due(true, Share::default()));
}
