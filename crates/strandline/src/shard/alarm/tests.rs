use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use strandline_io::{Steering, UdpCarrier, UdpOptions};

use super::*;
use crate::carrier::Registered;
use crate::memory::Network;

const HOUR: Duration = Duration::from_secs(3600);

/// Returns an alarm of each kind.
fn alarms(clock: &Clock) -> [Alarm; 2] {
    [Alarm::of_the_runtime(clock), Alarm::of_the_kernel().expect("there are descriptors")]
}

async fn rings(alarm: &mut Alarm) {
    poll_fn(|cx| alarm.poll(cx)).await;
}

async fn is_silent(alarm: &mut Alarm) -> bool {
    poll_fn(|cx| Poll::Ready(alarm.poll(cx).is_pending())).await
}

#[tokio::test]
async fn rings_once_each_time_it_is_set() {
    let clock = Clock::start();
    for mut alarm in alarms(&clock) {
        assert!(is_silent(&mut alarm).await, "{alarm:?}: not set");
        for after in [0, 300, 2000] {
            let now = clock.now();
            let at = now + Duration::from_micros(after);
            alarm.set(at, now, &clock);
            rings(&mut alarm).await;
            assert!(clock.now() >= at, "{alarm:?}: early");
            assert!(is_silent(&mut alarm).await, "{alarm:?}: twice");
        }
    }
}

#[tokio::test]
async fn earlier_alarm_replaces_a_later_one() {
    let clock = Clock::start();
    for mut alarm in alarms(&clock) {
        let now = clock.now();
        alarm.set(now + HOUR, now, &clock);
        assert!(is_silent(&mut alarm).await, "{alarm:?}");
        alarm.set(now + Duration::from_micros(500), now, &clock);
        rings(&mut alarm).await;
    }
}

#[tokio::test]
async fn later_alarm_replaces_an_expired_one() {
    let clock = Clock::start();
    for mut alarm in alarms(&clock) {
        let now = clock.now();
        alarm.set(now, now, &clock);
        rings(&mut alarm).await;
        alarm.set(now + HOUR, now, &clock);
        // Sleeps because the absence of an alarm can only be observed by waiting.
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(is_silent(&mut alarm).await, "{alarm:?}");
    }
}

#[tokio::test]
async fn real_sockets_use_kernel_timers() {
    let clock = Clock::start();
    let udp = UdpCarrier::bind("127.0.0.1:0".parse().expect("an address"), &UdpOptions::default())
        .expect("loopback has ports");
    let udp = Carrier::Udp(Registered::new(udp).expect("the runtime watches it"));
    assert!(matches!(Alarm::new(&udp, &clock), Alarm::Kernel(_)));

    let sockets = Network::new().attach(vec![[10, 0, 0, 1].into()], &Arc::new(Steering::new(1, 1)));
    let memory = Carrier::Memory(sockets.expect("nobody has the address").remove(0));
    assert!(matches!(Alarm::new(&memory, &clock), Alarm::Runtime { .. }));
}
