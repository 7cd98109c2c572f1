//! Proportional rate reduction (RFC 9937).

use super::*;

#[test]
fn more_in_recovery_than_in_proportion() {
    let began = |ms| Events { recoveries: 1, ..events(ms) };
    for (each, keeps) in [(1, true), (2, false)] {
        let mut bounds = Bounds::default();
        bounds
            .before((0, 0), &path(100 * MTU, 100 * MTU), events(1), Marks::default())
            .expect("it keeps the bounds");
        let mut outcome = Ok(());
        // Two packets arrive at a time. Half as many may be sent while the flight is above the threshold.
        for step in 0..20 {
            let flight = (99 - step) * MTU;
            let mut was = path(50 * MTU, flight);
            was.recovery_window = Some(flight);
            acknowledged(&mut bounds, &was, 2, began(2 + u64::from(step)));
            outcome = outcome.and_then(|()| send(&mut bounds, &was, each, began(2 + u64::from(step))));
        }
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "recovery") }
    }
}

/// A timer finds losses, and the pacer releases the retransmissions one by one. They replace what was lost.
#[test]
fn losses_found_by_time_are_replaced() {
    let began = |ms| Events { recoveries: 1, ..events(ms) };
    for (packets, keeps) in [(3, true), (4, false)] {
        let mut bounds = Bounds::default();
        let was = path(50 * MTU, 100 * MTU);
        bounds.before((0, 0), &was, events(1), Marks::default()).expect("it keeps the bounds");
        let recovery = |flight: u32| {
            let mut path = path(50 * MTU, flight * MTU);
            path.recovery_window = Some(99 * MTU);
            path
        };
        acknowledged(&mut bounds, &recovery(99), 1, began(2));
        // Three more packets are lost.
        acknowledged(&mut bounds, &recovery(96), 0, began(3));
        let mut outcome = Ok(());
        for step in 0..packets {
            acknowledged(&mut bounds, &recovery(96 + step), 0, began(4 + u64::from(step)));
            let was = recovery(96 + step);
            outcome = outcome.and_then(|()| send(&mut bounds, &was, 1, began(4 + u64::from(step))));
        }
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "recovery") }
    }
}

/// A SACK that revokes what was acknowledged fills the flight and opens the peer's window. One packet tests what
/// became of the window probe.
#[test]
fn an_opened_window_is_tested_in_recovery() {
    let began = |ms| Events { recoveries: 1, ..events(ms) };
    for (opened, packets, keeps) in [(true, 1, true), (true, 2, false), (false, 1, false)] {
        let mut bounds = Bounds::default();
        bounds
            .before((0, 0), &path(10 * MTU, 20 * MTU), events(1), Marks::default())
            .expect("it keeps the bounds");
        let recovery = |flight: u32| {
            let mut path = path(10 * MTU, flight * MTU);
            path.recovery_window = Some(flight * MTU);
            path
        };
        acknowledged(&mut bounds, &recovery(2), 18, began(2));
        let mut outcome = send(&mut bounds, &recovery(2), 8, began(2));
        acknowledged(&mut bounds, &recovery(2), 8, began(2));
        outcome = outcome.and_then(|()| send(&mut bounds, &recovery(2), 8, began(2)));
        let revoked = recovery(25);
        acknowledged(&mut bounds, &revoked, 0, Events { opened, ..began(3) });
        outcome = outcome.and_then(|()| send(&mut bounds, &revoked, packets, began(3)));
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "recovery") }
    }
}

/// Another path keeps the recovery open. After an RTO without data in flight the window is the limit.
#[test]
fn idle_path_ends_its_reduction() {
    let began = |ms| Events { recoveries: 1, several: true, ..events(ms) };
    for (ms, in_recovery, packets, keeps) in
        [(152, false, 8, true), (152, false, 9, false), (152, true, 8, false), (90, false, 8, false)]
    {
        let mut bounds = Bounds::default();
        bounds
            .before((0, 0), &path(7 * MTU, 20 * MTU), events(1), Marks::default())
            .expect("it keeps the bounds");
        let mut was = path(7 * MTU, 0);
        was.rto = Duration::from_millis(150);
        was.recovery_window = Some(MTU);
        acknowledged(&mut bounds, &was, 1, began(2));
        send(&mut bounds, &was, 1, began(2)).expect("allowed");
        acknowledged(&mut bounds, &was, 0, began(ms));
        let config = AssociationConfig::default();
        let traffic = Traffic { sent: packets * MTU, new: packets * MTU, packets, ..Traffic::default() };
        let mut after = was.clone();
        (after.flight, after.recovery_window) = (packets * MTU, in_recovery.then_some(MTU));
        let step = Step {
            was: &was,
            path: &after,
            traffic,
            mtu: MTU,
            events: began(ms),
            config: &config,
            lost: None,
            marked: None,
        };
        let outcome = bounds.after(step);
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "recovery") }
    }
}
